import io
import tracemalloc

import numpy as np
from PIL import Image

from lrrspm.images import near_copies
from lrrspm.images.near_copies import (
    ALIKE,
    CORRELATION,
    Pattern,
    brightness_pattern,
    group_near,
)
from tests.images.test_auditing import blobs


def resaved(gray, rng):
    """The changes that an image should be recognized after."""
    image = Image.fromarray(gray)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=50)
    with Image.open(file) as packed:
        yield np.asarray(packed)
    half = (image.width // 2, image.height // 2)
    yield np.asarray(image.resize(half, Image.Resampling.BICUBIC))
    yield np.asarray(image.resize((image.width * 2, image.height * 2)))
    yield (255 * (gray / 255) ** 1.3).astype(np.uint8)
    yield np.clip(gray + rng.normal(0, 5, gray.shape), 0, 255).astype(np.uint8)


def pattern(gray):
    found = brightness_pattern(gray)
    assert found is not None
    return found


def test_resaved_images_are_recognized():
    rng = np.random.default_rng(0)
    for seed in range(10):
        gray = np.asarray(blobs(seed, (240, 160)))
        one = pattern(gray)
        for changed in resaved(gray, rng):
            assert group_near([one, pattern(changed)]) == [[0, 1]]
        for turned in (gray[::-1], gray[:, ::-1], 255 - gray, np.roll(gray, 40, axis=1)):
            assert group_near([one, pattern(turned)]) == []


def test_images_without_a_pattern():
    assert brightness_pattern(np.full((40, 40), 7, np.uint8)) is None
    assert brightness_pattern(np.zeros((12, 40), np.uint8)) is None
    # A square of one cell, in a plain ground, has about eight steps.
    square = np.full((156, 156), 255, np.uint8)
    square[60:72, 60:72] = 0
    assert brightness_pattern(square) is None
    # Steps of 2 levels may be noise; those of 3 count.
    stairs = np.repeat(np.arange(13, dtype=np.uint8), 12)[None].repeat(156, axis=0)
    assert brightness_pattern(stairs * 2) is None
    assert brightness_pattern(stairs * 3) is not None
    # Bands of 13 pixels average stripes 13 apart, so all cells are alike; bands of 12 do not.
    stripes = np.zeros((156, 156), np.uint8)
    stripes[::13] = 250
    assert brightness_pattern(stripes) is None


def test_pattern_by_hand():
    """A ramp from left to right, and from top to bottom."""
    ramp = np.tile(np.arange(156, dtype=np.uint8), (156, 1))
    across = np.r_[np.ones(144), np.zeros(144)]
    np.testing.assert_array_equal(pattern(ramp).steps, across)
    np.testing.assert_array_equal(pattern(ramp[:, ::-1]).steps, -across)
    np.testing.assert_array_equal(pattern(ramp.T).steps, 1 - across)
    row = np.arange(-6, 7) / np.sqrt(12 * 182)
    np.testing.assert_allclose(pattern(ramp).cells, np.tile(row, 12), atol=1e-6)


def pattern_of(steps, cells=None):
    if cells is None:
        cells = np.eye(156)[0]
    return Pattern(np.asarray(steps, np.int8), np.asarray(cells, np.float32))


def test_near_patterns_are_grouped():
    rng = np.random.default_rng(0)
    one, two, three = (rng.choice([-1, 1], 288) for _ in range(3))
    # Of 288 steps 28 may be opposed: 260 - 28 is 0.8 of 288, and a little.
    near, far = one.copy(), two.copy()
    near[:28] *= -1
    far[:29] *= -1
    patterns = [pattern_of(steps) for steps in (one, two, near, three, far)]
    assert group_near(patterns) == [[0, 2]]
    assert group_near([]) == []
    # In steps: the first and the last have too little in common.
    further = near.copy()
    further[28:56] *= -1
    chain = [pattern_of(steps) for steps in (one, further, two, near)]
    assert group_near(chain) == [[0, 1, 3]]
    # More of them than are compared at a time.
    many = [pattern_of(steps) for steps in rng.choice([-1, 1], (700, 288))]
    assert group_near([patterns[0], *many, patterns[2]]) == [[0, 701]]


def test_cells_without_a_step_say_nothing():
    one, two = np.zeros(288), np.zeros(288)
    one[:60] = two[60:120] = 1
    assert group_near([pattern_of(one), pattern_of(two)]) == []
    two[:60] = 1
    two[75:] = 0
    assert group_near([pattern_of(one), pattern_of(two)]) == [[0, 1]]  # 60 of 75
    two[75] = 1
    assert group_near([pattern_of(one), pattern_of(two)]) == []


def test_near_patterns_are_confirmed_by_correlation():
    steps, first, second = np.ones(288), np.eye(156)[0], np.eye(156)[1]
    for correlation, expected in ((0.975, [[0, 1]]), (0.965, [])):
        cells = correlation * first + np.sqrt(1 - correlation**2) * second
        assert group_near([pattern_of(steps), pattern_of(steps, cells)]) == expected


def test_many_near_patterns_take_little_memory():
    patterns = [pattern_of(np.ones(288))] * 3000
    tracemalloc.start()
    try:
        (group,) = group_near(patterns)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert group == list(range(3000))
    assert peak < 50e6  # nine million pairs of indices would take 144 MB


def naive_groups(patterns):
    """Groups by comparing each with each, one pair at a time."""
    groups = list(range(len(patterns)))
    for i, one in enumerate(patterns):
        for j, other in enumerate(patterns[:i]):
            a, b = one.steps.astype(int), other.steps.astype(int)
            alike = (a * b).sum() >= ALIKE * np.count_nonzero(a | b)
            if alike and one.cells @ other.cells >= CORRELATION:
                groups = [groups[i] if group == groups[j] else group for group in groups]
    found = [[i for i, own in enumerate(groups) if own == group] for group in dict.fromkeys(groups)]
    return [group for group in found if len(group) > 1]


def test_groups_are_those_of_all_pairs(monkeypatch):
    monkeypatch.setattr(near_copies, "_BLOCK", 8)
    rng = np.random.default_rng(0)
    bases = rng.standard_normal((60, 156)).cumsum(axis=1)  # with few wide directions, as images
    patterns = []
    for noise in (0, 0.4, 0.8):
        for base in bases:
            cells = base - base.mean() + noise * rng.standard_normal(156)
            cells -= cells.mean()
            steps = np.sign(np.resize(base, 288)) * (rng.random(288) > 0.05)
            patterns.append(pattern_of(steps, cells / np.linalg.norm(cells)))
    expected = naive_groups(patterns)
    assert 10 < len(expected) <= 60
    assert any(len(group) == 2 for group in expected)
    assert group_near(patterns) == expected


def test_far_patterns_are_not_compared(monkeypatch):
    compared = []
    whole = near_copies._near_block

    def note(steps, cells, block, others):
        compared.append(len(block) * len(others))
        return whole(steps, cells, block, others)

    monkeypatch.setattr(near_copies, "_near_block", note)
    rng = np.random.default_rng(0)
    # On an arc, as images that brighten to one side are.
    angles = rng.uniform(0, np.pi, 4000)
    cells = np.cos(angles)[:, None] * np.eye(156)[0] + np.sin(angles)[:, None] * np.eye(156)[1]
    group_near([pattern_of(rng.choice([-1, 1], 288), one) for one in cells])
    assert sum(compared) < 4000**2 / 8
