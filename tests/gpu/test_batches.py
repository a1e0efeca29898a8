"""Canvases, cells and batches, against slow and obvious twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed")


from lrrspm import descriptors
from lrrspm.descriptors.base import Descriptor, PatchGrid
from lrrspm.gpu.batches import PIXELS, WASTE, Batch, Grids, find_members, similar
from lrrspm.pooling import SpatialPyramid

SIDES = st.integers(1, 40)
SHAPES = st.lists(st.tuples(SIDES, SIDES), min_size=1, max_size=5)


@settings(deadline=None, max_examples=25)
@given(SHAPES, st.sampled_from([(8, 3), (12, 4)]), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_canvases(shapes, grid, margin, seed):
    size, step = grid
    rng = np.random.default_rng(seed)
    images = [rng.random(shape, np.float32) for shape in shapes]
    batch, grids = Batch(images, "cpu"), Grids(shapes, 16, size, step)
    canvas, inside = batch.canvas(grids, margin)[:, 0], batch.inside(grids, margin)[:, 0]
    for i, image in enumerate(images):
        padded = Descriptor.pad(image, 16)
        own = PatchGrid(padded.shape, size, step)
        far = 200
        wide, shown = np.pad(padded, far, mode="edge"), np.pad(np.ones_like(padded), far)
        y, x = far + own.top - margin, far + own.left - margin
        window = np.s_[y : y + canvas.shape[1], x : x + canvas.shape[2]]
        np.testing.assert_array_equal(canvas[i], wide[window])
        np.testing.assert_array_equal(inside[i], shown[window])


def test_integers_are_divided():
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    canvas = Batch([image], "cpu").canvas(Grids([(16, 16)], 16, 16, 4), 0)
    np.testing.assert_allclose(canvas[0, 0], image / np.float32(255), rtol=1e-7)


@settings(deadline=None, max_examples=25)
@given(SHAPES)
def test_every_patch_is_in_its_cell(shapes):
    kinds = [Grids(shapes, 12, size, step) for size, step in ((8, 3), (12, 4))]
    pyramid = SpatialPyramid((1, 2, 4))
    images = [np.zeros(shape, np.uint8) for shape in shapes]
    rows, places, counts = find_members(Batch(images, "cpu"), kinds, pyramid)
    assert ((rows >= 0).sum(2) == counts).all()
    assert (places[rows < 0] == 0).all()
    for i, shape in enumerate(kinds[0].padded.tolist()):
        expected: list[tuple[int, int]] = []
        spots: dict[int, list[float]] = {}
        first = 0
        for grids in kinds:
            grid = PatchGrid(shape, grids.size, grids.step)
            found = grid.place(np.empty((grid.ny * grid.nx, 0), np.float32))
            cells = pyramid.cells(found.x, found.y, *shape[::-1])
            where = descriptors.places(found)
            at = [first + y * grids.nx + x for y in range(grid.ny) for x in range(grid.nx)]
            expected += zip(cells.tolist(), at, strict=True)
            spots.update(zip(at, where.tolist(), strict=True))
            first += grids.ny * grids.nx
        listed = [(c, int(r)) for c in range(16) for r in rows[i, c] if r >= 0]
        assert listed == sorted(expected, key=lambda pair: pair[0])
        filled = rows[i] >= 0
        assert [spots[r] for r in rows[i][filled].tolist()] == places[i][filled].tolist()


MANY_SIDES = st.one_of(st.integers(1, 6000), st.integers(200, 220))
MANY_SHAPES = st.lists(st.tuples(MANY_SIDES, MANY_SIDES), max_size=30)


@given(MANY_SHAPES)
def test_batches_hold_each_image_once(shapes):
    batches = list(similar(shapes))
    assert sorted(i for batch in batches for i in batch) == list(range(len(shapes)))
    for batch in batches:
        sides = np.array([shapes[i] for i in batch])
        canvases = len(batch) * sides.max(axis=0).prod()
        assert len(batch) == 1 or canvases <= min(PIXELS, WASTE * sides.prod(axis=1).sum())


def naive_similar(shapes):
    """Measure the whole batch again for each image."""
    batches: list[list[int]] = [[]]
    for index in sorted(range(len(shapes)), key=lambda i: shapes[i]):
        sides = np.array([shapes[i] for i in (*batches[-1], index)])
        canvases = len(sides) * sides.max(axis=0).prod()
        if batches[-1] and canvases > min(PIXELS, WASTE * sides.prod(axis=1).sum()):
            batches.append([])
        batches[-1].append(index)
    return batches if shapes else []


@given(MANY_SHAPES)
def test_batches_are_those_of_the_naive_twin(shapes):
    assert list(similar(shapes)) == naive_similar(shapes)


def test_each_shape_is_read_a_few_times():
    class Counted(list[tuple[int, int]]):
        reads = 0

        def __getitem__(self, place):
            self.reads += 1
            return super().__getitem__(place)

    shapes = Counted([(200, 300)] * 200)
    assert len(list(similar(shapes))) == 1
    assert shapes.reads <= 3 * len(shapes)
