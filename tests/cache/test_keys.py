"""Keys of the feature store: everything that changes a result, and nothing else."""

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import lrrspm
from lrrspm import (
    SIFT,
    AveragePooling,
    Channel,
    LLCEncoder,
    LRREncoder,
    SignedMaxPooling,
    SparseEncoder,
    SpatialPyramidFeatures,
    VQEncoder,
    find_images,
    read_image,
)
from lrrspm._support import registry
from lrrspm._support.stages import Stages
from lrrspm.cache import contents, hash_of, part_key, plain, same_key
from lrrspm.cache.keys import FORMAT, makers
from lrrspm.cli import app
from lrrspm.pipeline import fit_features, open_engine
from tests.cache.stores import counts, shards, small
from tests.conftest import draw

CHANGES: list[dict[str, Any]] = [
    {"channels__0__levels": (1, 2)},
    {"channels__0__descriptor__step": 8},
    {"channels__0__descriptor__patch_size": 12},
    {"max_side": 30},
    {"min_side": 100},
    {"n_samples": 100},
    {"random_state": 1},
    {"channels__0__pooling": AveragePooling()},
    {"channels__0__pooling__norm": "l1"},
    {"channels__0__encoder__codebook_size": 9},
    {"channels__0__encoder__regularization": 0.1},
    {"channels__0__encoder__threshold": 0},
    {"channels__0__encoder__normalize_codes": True},
    {"channels__0__encoder__random_state": 7},
    {"channels__0__encoder__codebook": np.random.default_rng(0).random((5, 128))},
    {"channels__0__encoder": LLCEncoder(codebook_size=8)},
    {"channels__0__encoder": LLCEncoder(codebook_size=8, n_neighbors=2)},
    {"channels__0__encoder": SparseEncoder(codebook_size=8)},
    {"channels__0__encoder": SparseEncoder(codebook_size=8, dictionary="sparse")},
    {"channels__0__encoder": SparseEncoder(codebook_size=8, dictionary="sparse", sparsity=0.3)},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_parameter_counts(image_folder, tmp_path, change):
    """One after the other on one store: what was kept for others is never taken."""
    paths = find_images(image_folder)[0][::3]
    small(tmp_path).fit(paths).transform(paths)
    expected = small().set_params(**change).fit(paths)
    vectors, encoder = expected.transform(paths), expected.channels_[0].encoder_
    assert not np.array_equal(vectors, small().fit(paths).transform(paths))
    for _ in range(2):
        found = small(tmp_path).set_params(**change).fit(paths)
        again = found.channels_[0].encoder_
        np.testing.assert_array_equal(again.codebook_, encoder.codebook_)
        np.testing.assert_array_equal(found.transform(paths), vectors)
        assert repr(again.get_params()) == repr(encoder.get_params())


PARTS = [
    ("descriptors", SIFT, {"step": 4, "patch_size": 8}),
    ("poolings", AveragePooling, {"norm": "l1"}),
    ("poolings", SignedMaxPooling, {"norm": None}),
    ("encoders", VQEncoder, {"codebook_size": 3, "codebook": np.eye(3), "random_state": 1}),
    (
        "encoders",
        LRREncoder,
        {"codebook_size": 3, "codebook": np.eye(3), "random_state": 1, "regularization": 0.1,
         "threshold": 0.5, "normalize_codes": True},
    ),
    (
        "encoders",
        LLCEncoder,
        {"codebook_size": 3, "codebook": np.eye(3), "random_state": 1, "regularization": 0.1,
         "n_neighbors": 2},
    ),
    (
        "encoders",
        SparseEncoder,
        {"codebook_size": 3, "codebook": np.eye(3), "random_state": 1, "sparsity": 0.3,
         "ridge": 0.1, "n_neighbors": 7, "dictionary": "sparse"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "cls", "changes"), PARTS, ids=lambda value: str(value)[:40])
def test_every_parameter_of_a_part_is_in_its_key(kind, cls, changes):
    """The list is complete: a new parameter without a change here fails."""
    assert changes.keys() == cls().get_params().keys()
    keys = [part_key(kind, cls()), *(part_key(kind, cls(**{n: changes[n]})) for n in changes)]
    assert None not in keys
    assert len({hash_of(key) for key in keys}) == len(keys)
    assert len({same_key(cls()), *(same_key(cls(**{n: changes[n]})) for n in changes)}) == len(keys)


def test_every_built_in_part_has_a_key():
    for kind, parts in registry.OURS.items():
        for name in parts:
            key = part_key(kind, registry.find(kind, name)())
            assert key is not None
            assert key["name"] == name


def test_the_list_of_changes_is_complete():
    """Every parameter of features and of channels is among the changes, or changes no result."""
    changed = {name for change in CHANGES for name in change}
    ours = {f"channels__0__{name}" for name in Channel().get_params(deep=False)}
    assert ours - changed == {
        "channels__0__descriptor",  # its parameters are
        "channels__0__projection",  # there is none of ours yet
        "channels__0__weight",  # applied to what the store keeps
        "channels__0__when",  # decides whether there is a channel at all
    }
    features = set(SpatialPyramidFeatures().get_params(deep=False))
    assert features - changed == {"channels", "n_jobs", "cache"}


def test_versions_and_processor_are_part_of_the_key(tmp_path, monkeypatch):
    before = hash_of({"a": 1})
    assert before == hash_of({"a": 1}) != hash_of({"a": 2})
    small(tmp_path).fit([draw("dots", np.random.default_rng(0))])
    assert [shelf["current"] for shelf in contents(tmp_path)] == [True]
    monkeypatch.setattr("lrrspm.cache.keys.makers", lambda: {"numpy": "0.1"})
    assert hash_of({"a": 1}) != before
    assert [shelf["current"] for shelf in contents(tmp_path)] == [False]
    listed = CliRunner().invoke(app, ["cache", "info", str(tmp_path), "--json"]).stdout
    assert [shelf["current"] for shelf in json.loads(listed)["shelves"]] == [False]


def test_all_that_makes_the_numbers_is_part_of_the_key(monkeypatch):
    names = {"lrrspm", "sources", "blas", "target", "numba", "numpy", "PIL", "scipy"}
    assert makers().keys() == names
    assert makers()["numpy"] == np.__version__
    before = hash_of({"a": 1})
    for name in names:
        changed = {**makers(), name: "another"}
        with monkeypatch.context() as patch:
            patch.setattr("lrrspm.cache.keys.makers", lambda changed=changed: changed)
            assert hash_of({"a": 1}) != before
    monkeypatch.setattr("lrrspm.cache.keys.FORMAT", FORMAT + 1)
    assert hash_of({"a": 1}) != before


def test_any_source_that_changes_is_part_of_the_key(tmp_path, monkeypatch):
    """In whatever room it is: moving a file must not switch this off."""
    root = Path(lrrspm.__file__).parent
    copy = tmp_path / "lrrspm"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    found = importlib.util.find_spec

    def find_copy(name):
        spec = found(name)
        if spec is not None and name == "lrrspm":
            spec.origin = str(copy / "__init__.py")
        return spec

    monkeypatch.setattr("importlib.util.find_spec", find_copy)

    def sources():
        registry.source_digest.cache_clear()
        return makers.__wrapped__()["sources"]

    try:
        before = sources()
        assert before == makers()["sources"]
        files = sorted(copy.rglob("*.py"))
        rooms = {file.parent for file in files}
        assert {copy, copy / "descriptors", copy / "_support", copy / "images"} <= rooms
        for file in files:
            content = file.read_bytes()
            file.write_bytes(content + b"# another line\n")
            assert sources() != before, file
            file.write_bytes(content)
        assert sources() == before
    finally:
        registry.source_digest.cache_clear()


def test_the_order_of_the_pictures_counts(image_folder, tmp_path):
    """It is part of what is drawn from each of them."""
    paths = find_images(image_folder)[0]
    for some in (paths, paths[::-1]):
        found = small(tmp_path, n_samples=200).fit(some).channels_[0].encoder_.codebook_
        alone = small(n_samples=200).fit(some).channels_[0].encoder_.codebook_
        np.testing.assert_array_equal(found, alone)
    assert counts(tmp_path)["codebooks"] == 2


def test_the_seed_of_the_sample_counts(image_folder, tmp_path):
    """Also where the encoder has a seed of its own."""
    paths, encoder = find_images(image_folder)[0], LRREncoder(codebook_size=8, random_state=5)
    codebooks = []
    for seed in (0, 1):
        features = small(tmp_path, encoder=encoder, random_state=seed, n_samples=200).fit(paths)
        alone = clone(features).set_params(cache=None).fit(paths)
        codebooks.append(features.channels_[0].encoder_.codebook_)
        np.testing.assert_array_equal(codebooks[-1], alone.channels_[0].encoder_.codebook_)
    assert not np.array_equal(*codebooks)


def test_methods_share_a_codebook(image_folder, tmp_path, learned):
    paths, _ = find_images(image_folder)
    for encoder in (LRREncoder, LLCEncoder, SparseEncoder):
        features = small(tmp_path, encoder=encoder(codebook_size=8)).fit(paths)
        np.testing.assert_array_equal(
            features.channels_[0].encoder_.codebook_,
            clone(features).set_params(cache=None).fit(paths).channels_[0].encoder_.codebook_,
        )
    assert counts(tmp_path)["codebooks"] == 1


def test_some_known_and_some_not(image_folder, tmp_path, learned):
    paths, _ = find_images(image_folder)
    small(tmp_path).fit(paths[:20])
    kinds = [
        small(tmp_path),
        small(tmp_path, random_state=3),
        small(tmp_path, pooling=AveragePooling()),
    ]
    members = [np.arange(20), np.arange(5, 25), np.arange(20)]
    with open_engine(1) as engine:
        fit_features(kinds, paths, members, engine, Stages())
    assert len(learned) == 2
    for feature, indices in zip(kinds, members, strict=True):
        alone = clone(feature).set_params(cache=None).fit([paths[i] for i in indices])
        np.testing.assert_array_equal(
            alone.channels_[0].encoder_.codebook_, feature.channels_[0].encoder_.codebook_
        )


@pytest.mark.parametrize("seed", [None, np.random.RandomState(3)])
def test_seeds_that_do_not_come_back_are_not_kept(image_folder, tmp_path, seed):
    paths, _ = find_images(image_folder)
    small(tmp_path, encoder=LRREncoder(codebook_size=8, random_state=seed), random_state=None).fit(
        paths
    )
    assert shards(tmp_path) == []
    encoder = LRREncoder(codebook_size=8, random_state=np.random.RandomState(3))
    small(tmp_path, encoder=encoder).fit(paths)
    assert counts(tmp_path) == {"codebooks": 0, "samples": 0, "vectors": 0}


def test_a_generators_draws_are_kept(image_folder, tmp_path, learned):
    """The numbers that a RandomState gives are the seeds, and they may come back."""
    paths, _ = find_images(image_folder)
    for _ in range(2):
        small(tmp_path, random_state=np.random.RandomState(3)).fit(paths)
    assert learned == [8]


def test_foreign_encoders_are_not_kept(image_folder, tmp_path):
    class OwnEncoder(LRREncoder):
        pass

    paths, _ = find_images(image_folder)
    small(tmp_path, encoder=OwnEncoder(codebook_size=8)).fit(paths).transform(paths)
    assert shards(tmp_path) == []


def test_descriptors_that_are_not_registered_are_not_kept(image_folder, tmp_path):
    class OwnSIFT(SIFT):
        pass

    paths, _ = find_images(image_folder)
    features = small(tmp_path).set_params(channels__0__descriptor=OwnSIFT())
    features.fit(paths).transform(paths)
    assert shards(tmp_path) == []


def test_poolings_that_are_not_registered_are_not_kept(image_folder, tmp_path):
    """Their codebook is: it does not depend on them."""

    class OwnPooling(AveragePooling):
        pass

    paths, _ = find_images(image_folder)
    small(tmp_path, pooling=OwnPooling()).fit(paths).transform(paths)
    assert counts(tmp_path) == {"codebooks": 1, "samples": 0, "vectors": 0}


class Mirrored(SpatialPyramidFeatures):
    def read(self, image):
        pixels = super().read(image)
        assert pixels.gray is not None
        return pixels._replace(gray=np.ascontiguousarray(pixels.gray[:, ::-1]))


def test_foreign_features_are_not_kept(image_folder, tmp_path):
    """A class that reads or describes in its own way, with the parameters of ours."""
    paths, _ = find_images(image_folder)
    ours = small(tmp_path).fit(paths)
    ours.transform(paths)
    before = shards(tmp_path)
    mirrored = Mirrored(**ours.get_params(deep=False)).fit(paths)
    alone = Mirrored(**small().get_params(deep=False)).fit(paths)
    np.testing.assert_array_equal(
        mirrored.channels_[0].encoder_.codebook_, alone.channels_[0].encoder_.codebook_
    )
    mirrored.channels_[0].encoder_ = ours.channels_[0].encoder_
    expected = ours.set_params(cache=None).transform([read_image(p)[:, ::-1] for p in paths])
    np.testing.assert_array_equal(mirrored.transform(paths), expected)
    assert shards(tmp_path) == before


def test_what_has_no_fixed_value_has_no_key():
    assert plain({"a": (1, np.float32(0.5)), "b": np.zeros(2)})["a"] == [1, 0.5]
    with pytest.raises(TypeError, match="RandomState has no fixed value"):
        plain([np.random.RandomState(0)])
