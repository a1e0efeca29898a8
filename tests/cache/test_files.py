"""The feature store and image files: odd ones, and files that change meanwhile."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lrrspm import SIFT, LRREncoder, find_images
from lrrspm._support.files import MAX_BYTES, file_digest
from lrrspm._support.stages import Stages
from lrrspm.cache import FeatureStore, contents
from lrrspm.images import read_pixels, warn_about
from lrrspm.pipeline import encode_images, fit_features, open_engine
from tests.cache.stores import counts, small
from tests.conftest import draw, replace_reader


def run_for_a_while(*arguments):
    """A command in a process of its own, which is killed if it does not end."""
    command = [sys.executable, "-m", "lrrspm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def odd(image_folder, tmp_path):
    """The made images, a pipe, a device that never ends, and a file that is too large."""
    folder = tmp_path / "odd"
    shutil.copytree(image_folder, folder)
    os.mkfifo(folder / "dots" / "pipe.jpg")
    (folder / "dots" / "zero.jpg").symlink_to("/dev/zero")
    with (folder / "dots" / "large.jpg").open("wb") as file:
        file.truncate(1000 * MAX_BYTES)
    return folder


def test_pipes_and_devices_do_not_stop_a_run(odd, image_folder, tmp_path, model_path):
    cache = tmp_path / "cache"
    options = ["--method", "LrrSPM", "--codebook-size", "8", "--jobs", "2"]
    with_store = [*options, "--cache", cache, "--on-error", "skip"]
    trained = run_for_a_while("train", odd, "-o", tmp_path / "m", *with_store)
    assert trained.returncode == 3, trained.stderr
    assert "pipe.jpg: not a regular file" in trained.stderr
    assert "zero.jpg: not a regular file" in trained.stderr
    assert "large.jpg: 1,073,741,824,000 bytes, at most" in trained.stderr
    run_for_a_while("train", image_folder, "-o", tmp_path / "plain", *options)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "plain").read_bytes()
    predicted = run_for_a_while("predict", model_path, odd, "--cache", cache)
    assert predicted.returncode == 3, predicted.stderr
    assert "skipped 3 of 39 files" in predicted.stderr
    vectors = [shelf["arrays"] for shelf in contents(cache) if shelf["kind"] == "vectors"]
    assert vectors == [36, 36]


def test_warnings_read_only_images(odd):
    """Two of each, so that they are of the same length."""
    names = ["pipe.jpg", "zero.jpg", "large.jpg"] * 2
    warn_about([str(odd / "dots" / name) for name in names], ["dots"] * 6)


def test_digests(odd, tmp_path):
    known = tmp_path / "a"
    known.write_bytes(b"abc")
    assert file_digest(known) == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    (tmp_path / "empty").touch()
    nothing = [tmp_path / "empty", tmp_path / "missing", tmp_path, *odd.glob("dots/*.jpg")]
    assert len(nothing) == 6
    assert [file_digest(path) for path in nothing] == [None] * 6


def test_content_counts_and_names_do_not(image_folder, tmp_path, reads):
    folder, cache = tmp_path / "images", tmp_path / "cache"
    shutil.copytree(image_folder, folder)
    features = small(cache).fit(find_images(folder)[0])
    before = features.transform(find_images(folder)[0])
    (folder / "dots").rename(folder / "zebra")
    shutil.copy(folder / "zebra" / "00.png", folder / "zebra" / "new.png")
    del reads[:]
    paths, _ = find_images(folder)
    np.testing.assert_array_equal(features.transform(paths), [*before, before[24]])
    assert reads == []
    # The same name and size, another image.
    Image.fromarray(draw("slant", np.random.default_rng(5))).save(paths[0])
    found = features.transform(paths)
    assert reads == [paths[0]]
    assert not np.array_equal(found[0], before[0])


def test_arrays_are_kept_too(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    images = [draw("dots", rng), rng.random((40, 50)), rng.random((40, 50), dtype=np.float32)]
    images += [images[1].T, images[1].T.copy()]
    expected = small().fit(images).transform(images)
    for _ in range(2):
        np.testing.assert_array_equal(small(tmp_path).fit(images).transform(images), expected)
    assert counts(tmp_path)["vectors"] == 4  # the last two are one
    features = small(tmp_path).fit(images)
    monkeypatch.setattr(SIFT, "describe", None)
    np.testing.assert_array_equal(features.transform(images), expected)


def rewrite(path, kind="slant"):
    """Another image under the same name, and of the same size where the format has no say."""
    Image.fromarray(draw(kind, np.random.default_rng(5))).save(path)


@pytest.fixture
def own(image_folder, tmp_path):
    """Copies of the made images that a test may change."""
    shutil.copytree(image_folder, tmp_path / "images")
    return find_images(tmp_path / "images")[0]


@pytest.fixture(params=[False, True], ids=["stays", "and back"])
def changing(request, own, monkeypatch):
    """The fourth of them changes just before it is read, and, or not, back after it."""

    def read(path, *rest, **named):
        if path != own[3]:
            return read_pixels(path, *rest, **named)
        before = Path(path).read_bytes()
        rewrite(path)
        pixels = read_pixels(path, *rest, **named)
        if request.param:
            Path(path).write_bytes(before)
        return pixels

    replace_reader(monkeypatch, read)
    return own


def test_the_vector_of_a_file_that_changes_is_not_kept(image_folder, tmp_path, changing):
    """Its digest would be that of the old content, its vector that of the new."""
    features = small(tmp_path / "cache").fit(find_images(image_folder)[0])
    features.transform(changing)
    assert counts(tmp_path / "cache")["vectors"] == 35


def test_the_sample_of_a_file_that_changes_is_not_kept(tmp_path, changing, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LRREncoder, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small(tmp_path / "cache").fit(changing)
    assert counts(tmp_path / "cache")["samples"] == 35


def test_a_file_of_the_same_size_is_another_one(tmp_path):
    """One store is used for several steps, and remembers what it has seen."""
    paths = [str(tmp_path / f"{i}.bmp") for i in range(3)]
    for path, kind in zip(paths, ("across", "along", "dots"), strict=True):
        rewrite(path, kind)
    store, features = FeatureStore(tmp_path / "cache"), small()
    with open_engine(1) as engine:
        fit_features([features], paths, [np.arange(3)], engine, Stages(), store=store)
        before = encode_images([features], paths, engine, Stages(), store=store).matrices[0]
        size = os.path.getsize(paths[1])
        rewrite(paths[1])
        assert os.path.getsize(paths[1]) == size
        after = encode_images([features], paths, engine, Stages(), store=store).matrices[0]
    np.testing.assert_array_equal(after, features.transform(paths))
    assert not np.array_equal(before[1], after[1])
