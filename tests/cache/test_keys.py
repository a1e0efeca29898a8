"""What the feature store finds its content by: everything that changes it, and no more."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from lrrspm import (
    LLCEncoder,
    LRREncoder,
    SparseEncoder,
    SpatialPyramidFeatures,
    find_images,
    read_image,
)
from lrrspm._support.stages import Stages
from lrrspm.cache import store
from lrrspm.cache.store import FORMAT, _makers, contents, hash_of, plain
from lrrspm.cli import app
from lrrspm.pipeline.batch import fit_all
from tests.cache.stores import counts, shards, small
from tests.conftest import draw

CHANGES = [
    {"levels": (1, 2)},
    {"step": 8},
    {"patch_size": 12},
    {"max_side": 30},
    {"n_samples": 100},
    {"random_state": 1},
    {"pooling": "average"},
    {"norm": "l1"},
    {"encoder__codebook_size": 9},
    {"encoder__regularization": 0.1},
    {"encoder__threshold": 0},
    {"encoder__normalize_codes": True},
    {"encoder__random_state": 7},
    {"encoder__codebook": np.random.default_rng(0).random((5, 128))},
    {"encoder": LLCEncoder(codebook_size=8)},
    {"encoder": LLCEncoder(codebook_size=8, n_neighbors=2)},
    {"encoder": SparseEncoder(codebook_size=8)},
    {"encoder": SparseEncoder(codebook_size=8, dictionary="sparse")},
    {"encoder": SparseEncoder(codebook_size=8, dictionary="sparse", sparsity=0.3)},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_parameter_counts(pictures, tmp_path, change):
    """One after the other on one store: what was kept for others is never taken."""
    paths = find_images(pictures)[0][::3]
    small(tmp_path).fit(paths).transform(paths)
    expected = small().set_params(**change).fit(paths)
    vectors = expected.transform(paths)
    assert not np.array_equal(vectors, small().fit(paths).transform(paths))
    for _ in range(2):
        found = small(tmp_path).set_params(**change).fit(paths)
        np.testing.assert_array_equal(found.encoder_.codebook_, expected.encoder_.codebook_)
        np.testing.assert_array_equal(found.transform(paths), vectors)
        assert repr(found.encoder_.get_params()) == repr(expected.encoder_.get_params())


def test_new_parameters_are_not_forgotten():
    """A parameter nobody has thought of is part of the key."""
    from lrrspm.pipeline.batch import _descriptor_parameters, _vector_parameters

    class Coloured(SpatialPyramidFeatures):
        def __init__(self, colour="red", cache=None):
            super().__init__(LRREncoder(codebook_size=2), random_state=0)
            self.colour = colour

        @classmethod
        def _get_param_names(cls):
            return [*SpatialPyramidFeatures._get_param_names(), "colour"]

    red, blue = (Coloured(c).fit([draw("dots", np.random.default_rng(0))]) for c in ("red", "blue"))
    assert _descriptor_parameters(red) != _descriptor_parameters(blue)
    assert _vector_parameters(red) != _vector_parameters(blue)


def test_versions_and_processor_are_part_of_the_key(tmp_path, monkeypatch):
    before = hash_of({"a": 1})
    assert before == hash_of({"a": 1}) != hash_of({"a": 2})
    small(tmp_path).fit([draw("dots", np.random.default_rng(0))])
    assert [shelf["current"] for shelf in contents(tmp_path)] == [True]
    monkeypatch.setattr("lrrspm.cache.store._makers", lambda: {"numpy": "0.1"})
    assert hash_of({"a": 1}) != before
    assert [shelf["current"] for shelf in contents(tmp_path)] == [False]
    listed = CliRunner().invoke(app, ["cache", "info", str(tmp_path)]).stdout
    assert "of another version, not used" in listed


def test_all_that_makes_the_numbers_is_part_of_the_key(monkeypatch):
    names = {"lrrspm", "sources", "processor", "numba", "numpy", "PIL", "scipy"}
    assert _makers().keys() == names
    assert _makers()["numpy"] == np.__version__
    before = hash_of({"a": 1})
    for name in names:
        changed = {**_makers(), name: "another"}
        with monkeypatch.context() as patch:
            patch.setattr("lrrspm.cache.store._makers", lambda changed=changed: changed)
            assert hash_of({"a": 1}) != before
    monkeypatch.setattr("lrrspm.cache.store.FORMAT", FORMAT + 1)
    assert hash_of({"a": 1}) != before


def test_a_source_that_changes_is_part_of_the_key(tmp_path, monkeypatch):
    for path in Path(store.__file__).parent.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(store, "__file__", str(tmp_path / "store.py"))
    makers = _makers.__wrapped__
    assert makers() == _makers()
    with (tmp_path / "sift.py").open("a") as file:
        file.write("# another line\n")
    assert makers()["sources"] != _makers()["sources"]


def test_the_order_of_the_pictures_counts(pictures, tmp_path):
    """It is part of what is drawn from each of them."""
    paths = find_images(pictures)[0]
    for some in (paths, paths[::-1]):
        found = small(tmp_path, n_samples=200).fit(some).encoder_.codebook_
        alone = small(n_samples=200).fit(some).encoder_.codebook_
        np.testing.assert_array_equal(found, alone)
    assert counts(tmp_path)["codebooks"] == 2


def test_the_seed_of_the_sample_counts(pictures, tmp_path):
    """Also where the encoder has a seed of its own."""
    paths, encoder = find_images(pictures)[0], LRREncoder(codebook_size=8, random_state=5)
    codebooks = []
    for seed in (0, 1):
        features = small(tmp_path, encoder=encoder, random_state=seed, n_samples=200).fit(paths)
        alone = clone(features).set_params(cache=None).fit(paths)
        codebooks.append(features.encoder_.codebook_)
        np.testing.assert_array_equal(codebooks[-1], alone.encoder_.codebook_)
    assert not np.array_equal(*codebooks)


def test_methods_share_a_codebook(pictures, tmp_path, learned):
    paths, _ = find_images(pictures)
    for encoder in (LRREncoder, LLCEncoder, SparseEncoder):
        features = small(tmp_path, encoder=encoder(codebook_size=8)).fit(paths)
        np.testing.assert_array_equal(
            features.encoder_.codebook_,
            clone(features).set_params(cache=None).fit(paths).encoder_.codebook_,
        )
    assert counts(tmp_path)["codebooks"] == 1


def test_some_known_and_some_not(pictures, tmp_path, learned):
    paths, _ = find_images(pictures)
    small(tmp_path).fit(paths[:20])
    kinds = [small(tmp_path), small(tmp_path, random_state=3), small(tmp_path, pooling="average")]
    members = [np.arange(20), np.arange(5, 25), np.arange(20)]
    fit_all(kinds, paths, members, Stages())
    assert len(learned) == 2
    for feature, indices in zip(kinds, members, strict=True):
        alone = clone(feature).set_params(cache=None).fit([paths[i] for i in indices])
        np.testing.assert_array_equal(alone.encoder_.codebook_, feature.encoder_.codebook_)


@pytest.mark.parametrize("seed", [None, np.random.RandomState(3)])
def test_seeds_that_do_not_come_back_are_not_kept(pictures, tmp_path, seed):
    paths, _ = find_images(pictures)
    small(tmp_path, encoder=LRREncoder(codebook_size=8, random_state=seed), random_state=None).fit(
        paths
    )
    assert shards(tmp_path) == []
    encoder = LRREncoder(codebook_size=8, random_state=np.random.RandomState(3))
    small(tmp_path, encoder=encoder).fit(paths)
    assert counts(tmp_path) == {"codebooks": 0, "samples": 0, "vectors": 0}


def test_a_generators_draws_are_kept(pictures, tmp_path, learned):
    """The numbers that a RandomState gives are the seeds, and they may come back."""
    paths, _ = find_images(pictures)
    for _ in range(2):
        small(tmp_path, random_state=np.random.RandomState(3)).fit(paths)
    assert learned == [8]


def test_foreign_encoders_are_not_kept(pictures, tmp_path):
    class OwnEncoder(LRREncoder):
        pass

    paths, _ = find_images(pictures)
    small(tmp_path, encoder=OwnEncoder(codebook_size=8)).fit(paths).transform(paths)
    assert shards(tmp_path) == []


class Mirrored(SpatialPyramidFeatures):
    def read(self, image):
        return super().read(image)[:, ::-1]


def test_foreign_features_are_not_kept(pictures, tmp_path):
    """A class that reads or describes in its own way, with the parameters of ours."""
    paths, _ = find_images(pictures)
    ours = small(tmp_path).fit(paths)
    ours.transform(paths)
    before = shards(tmp_path)
    mirrored = Mirrored(**ours.get_params(deep=False)).fit(paths)
    alone = Mirrored(**small().get_params(deep=False)).fit(paths)
    np.testing.assert_array_equal(mirrored.encoder_.codebook_, alone.encoder_.codebook_)
    mirrored.encoder_ = ours.encoder_
    expected = ours.set_params(cache=None).transform([read_image(p)[:, ::-1] for p in paths])
    np.testing.assert_array_equal(mirrored.transform(paths), expected)
    assert shards(tmp_path) == before


def test_what_has_no_fixed_value_has_no_key():
    assert plain({"a": (1, np.float32(0.5)), "b": np.zeros(2)})["a"] == [1, 0.5]
    with pytest.raises(TypeError, match="RandomState has no fixed value"):
        plain([np.random.RandomState(0)])
