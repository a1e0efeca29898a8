"""The feature store: the same bits with it as without it, whatever state it is in."""

import errno
import json
import os
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from typer.testing import CliRunner

from lrrspm import LRREncoder, find_images, load_model
from lrrspm._support.stages import Stages
from lrrspm.cache import FeatureStore, StoreError, clear, contents
from lrrspm.cache.shelf import SHARD, Form, Shelf
from lrrspm.cli import app
from lrrspm.evaluation import evaluate
from lrrspm.images import read_pixels
from lrrspm.pipeline import open_engine
from lrrspm.pipeline.streaming import stream_vectors, whole
from tests.cache.stores import classifier, counts, model_bytes, shards, small
from tests.conftest import replace_reader

ANY = Form(("F32", "F64"), (range(1, 10**6),))


@pytest.mark.parametrize("method", ["LrrSPM", "KernelSPM", "KernelLrrSPM", "NonlinearLrrSPM"])
def test_model_files_are_the_same_without_cold_warm_and_half_filled(
    image_folder, tmp_path, reads, learned, method
):
    parameters = {"method": method, "n_jobs": 2}
    cache, path = tmp_path / "cache", tmp_path / "m"
    plainly = model_bytes(image_folder, path, None, **parameters)
    assert model_bytes(image_folder, path, cache, **parameters) == plainly
    assert counts(cache) == {"codebooks": 1, "samples": 0, "vectors": 36}
    del reads[:], learned[:]
    assert model_bytes(image_folder, path, cache, **parameters) == plainly
    assert reads == []
    assert learned == []
    for kind in ("vectors", "codebooks"):
        shards(cache, kind)[0].unlink()
        assert model_bytes(image_folder, path, cache, **parameters) == plainly
        assert len(reads) == 36  # what is missing, and no more
        assert counts(cache) == {"codebooks": 1, "samples": 0, "vectors": 36}
        del reads[:]


def test_evaluation_is_the_same(image_folder, tmp_path, reads):
    paths, labels = find_images(image_folder)
    for shared in (False, True):
        expected = evaluate(paths, labels, classifier(C=0.001), 3, 2, shared)
        for _ in range(2):
            del reads[:]
            found = evaluate(paths, labels, classifier(tmp_path, C=0.001), 3, 2, shared)
            np.testing.assert_array_equal(found.confusions, expected.confusions)
            assert found.seconds.keys() == {"store", *expected.seconds}
        assert reads == []


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:-7])


def damage_flip(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(bytes(content))


def damage_empty(path):
    path.write_bytes(b"")


def damage_garbage(path):
    path.write_bytes(os.urandom(3000))


def damage_rewrite(path):
    """A sound file with the same names and other numbers."""
    arrays = {name: array + 1 for name, array in load_file(path).items()}
    save_file(arrays, path, {"lrrspm": "{}"})


@pytest.mark.parametrize("kind", ["vectors", "codebooks"])
@pytest.mark.parametrize(
    "damage", [damage_truncate, damage_flip, damage_empty, damage_garbage, damage_rewrite]
)
def test_damaged_shards_are_named_and_computed_again(image_folder, tmp_path, kind, damage):
    paths, _ = find_images(image_folder)
    expected = small(tmp_path).fit(paths).transform(paths)
    (shard,) = shards(tmp_path, kind)
    damage(shard)
    with pytest.warns(UserWarning, match=f"{shard.name}: damaged .* computed again") as caught:
        found = small(tmp_path).fit(paths).transform(paths)
    assert len(caught) == 1
    np.testing.assert_array_equal(found, expected)
    # The next run finds all in order.
    np.testing.assert_array_equal(small(tmp_path).fit(paths).transform(paths), expected)
    assert counts(tmp_path) == {"codebooks": 1, "samples": 0, "vectors": 36}


def test_shards_that_vanish(tmp_path):
    """Another process may clear the store while we look into it."""
    store = FeatureStore(tmp_path)
    shelf = store.shelf("vectors", {"x": 1}, ANY)
    for name in "abc":
        shelf.put(name, np.full(3, float(ord(name))))
    shelf.flush()
    assert dict(store.shelf("vectors", {"x": 1}, ANY).fetch("ab")).keys() == {"a", "b"}
    late = store.shelf("vectors", {"x": 1}, ANY)
    clear(tmp_path)
    assert dict(late.fetch("ab")) == {}
    late.put("a", np.zeros(3))
    late.flush()
    assert dict(store.shelf("vectors", {"x": 1}, ANY).fetch("ab"))["a"].tolist() == [0, 0, 0]


def test_a_shelf_is_not_listed_for_each_block(tmp_path, monkeypatch):
    """Listing takes the longer, the more there is: a long run would spend its time on it."""
    listed = []

    def list_slowly(self):
        listed.append(self)
        time.sleep(0.2)

    monkeypatch.setattr(Shelf, "look_again", list_slowly)
    store = FeatureStore(tmp_path)
    for _ in range(20):
        store.shelf("vectors", {"x": 1}, ANY)
    assert len(listed) == 2  # the first one, which reads all headers, is no measure
    store.shelf("vectors", {"x": 2}, ANY)
    assert len(listed) == 3


@pytest.mark.parametrize(("known", "left"), [(100, 36), (4, 0)])
def test_digests_of_many_files_are_dropped(
    model_path, image_folder, tmp_path, monkeypatch, known, left
):
    monkeypatch.setattr("lrrspm.pipeline.streaming._KNOWN", known)
    model, store = load_model(model_path), FeatureStore(tmp_path)
    with open_engine(1) as engine:
        images = find_images(image_folder)[0]
        for _ in stream_vectors(whole, model.features_, images, engine, Stages(), store=store):
            pass
    assert len(store._digests) == left


def test_two_writers(tmp_path):
    """Both write what the other has not seen; a reader has all, each once."""
    writers = [FeatureStore(tmp_path).shelf("vectors", {"x": 1}, ANY) for _ in range(2)]
    for number in range(3 * SHARD):
        for writer in writers[: 1 + number % 2]:
            writer.put(str(number), np.array([float(number)]))
    for writer in writers:
        writer.flush()
    reader = FeatureStore(tmp_path).shelf("vectors", {"x": 1}, ANY)
    found = list(reader.fetch(str(n) for n in range(3 * SHARD + 9)))
    assert sorted((name, int(a[0])) for name, a in found) == sorted(
        (str(n), n) for n in range(3 * SHARD)
    )


def test_a_full_disk_is_said_once_and_changes_nothing(image_folder, tmp_path, monkeypatch):
    paths, _ = find_images(image_folder)
    expected = small().fit(paths).transform(paths)

    def fail(place, name, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("lrrspm.cache.places.LocalPlace._write", fail)
    monkeypatch.setattr("lrrspm.cache.shelf.SHARD", 4)
    with pytest.warns(UserWarning, match="No space left on device.*going on without") as caught:
        features = small(tmp_path).fit(paths)
    with pytest.warns(UserWarning, match="No space left on device"):
        np.testing.assert_array_equal(features.transform(paths), expected)
    assert len(caught) == 1
    assert shards(tmp_path) == []


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    shelf = FeatureStore(tmp_path).shelf("vectors", {"x": 1}, ANY)
    shelf.put("a", np.zeros(3))

    def fail(self, target):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.warns(UserWarning, match="cannot write"):
        shelf.flush()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [
        tmp_path / "lrrspm-store.json"
    ]


def test_samples_outlive_an_interrupted_codebook(image_folder, tmp_path, reads, monkeypatch):
    paths, _ = find_images(image_folder)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LRREncoder, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            small(tmp_path).fit(paths)
    assert counts(tmp_path) == {"codebooks": 0, "samples": 36, "vectors": 0}
    del reads[:]
    resumed = small(tmp_path).fit(paths)
    assert reads == []
    np.testing.assert_array_equal(
        resumed.channels_[0].encoder_.codebook_, small().fit(paths).channels_[0].encoder_.codebook_
    )
    assert counts(tmp_path) == {"codebooks": 1, "samples": 0, "vectors": 0}


def test_samples_of_an_interrupted_reading(image_folder, tmp_path, monkeypatch):
    paths, _ = find_images(image_folder)
    expected = small().fit(paths).channels_[0].encoder_.codebook_
    read = []

    def interrupted(path, *rest, **named):
        read.append(path)
        if len(read) == 30:
            raise KeyboardInterrupt
        return read_pixels(path, *rest, **named)

    replace_reader(monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt):
        small(tmp_path).fit(paths)
    found = small(tmp_path).fit(paths).channels_[0].encoder_.codebook_
    np.testing.assert_array_equal(found, expected)
    # Chunks of three images: the 30th spoils its own.
    assert read == [*paths[:30], *paths[27:]]


def test_not_in_model_files(image_folder, tmp_path):
    model = classifier(tmp_path / "cache").fit(*find_images(image_folder))
    assert clone(model).cache == tmp_path / "cache"
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").cache is None
    assert b"cache" not in (tmp_path / "m").read_bytes()


def test_predictions_of_a_loaded_model(image_folder, tmp_path, model_path, reads):
    paths, _ = find_images(image_folder)
    expected = load_model(model_path).decision_function(paths)
    for _ in range(2):
        del reads[:]
        model = load_model(model_path).set_params(cache=tmp_path)
        np.testing.assert_array_equal(model.decision_function(paths), expected)
    assert reads == []


def test_folders_that_are_no_store(tmp_path):
    (tmp_path / "photo.jpg").touch()
    for call in (FeatureStore, contents, clear):
        with pytest.raises(StoreError, match="not a feature store"):
            call(tmp_path)
        with pytest.raises(StoreError, match=r"photo\.jpg: (not a folder|no such folder)"):
            call(tmp_path / "photo.jpg")
    assert os.listdir(tmp_path) == ["photo.jpg"]
    with pytest.raises(StoreError, match="no such folder"):
        contents(tmp_path / "nowhere")
    FeatureStore(tmp_path / "new" / "store")
    marker = tmp_path / "new" / "store" / "lrrspm-store.json"
    marker.write_text('{"format": 2}')
    with pytest.raises(StoreError, match=r"format 2, this lrrspm .* has format 1"):
        FeatureStore(marker.parent)
    marker.write_text("[]")
    with pytest.raises(StoreError, match=r"lrrspm-store\.json: damaged"):
        FeatureStore(marker.parent)


def test_without_a_folder_nothing_is_looked_at():
    store = FeatureStore(None)
    assert store.digests(["nowhere.png"]) == [None]
    shelf = store.shelf("vectors", {"x": 1}, ANY)
    shelf.put("a", np.zeros(3))
    shelf.flush()
    shelf.discard()
    assert dict(shelf.fetch("a")) == {}


def test_clear_deletes_what_the_store_made(image_folder, tmp_path):
    small(tmp_path).fit(find_images(image_folder)[0]).transform(find_images(image_folder)[0])
    shelf = shards(tmp_path, "vectors")[0].parent
    own = [shelf / "notes.txt", tmp_path / "photo.jpg", tmp_path / "vectors" / "mine" / "a.txt"]
    own[-1].parent.mkdir()
    for path in own:
        path.touch()
    (shelf / ".0123456789abcdef.part").write_bytes(b"half of a shard")
    assert len(shards(tmp_path)) == 2
    files, size = clear(tmp_path)
    assert (files, size > 20_000) == (3, True)
    left = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*own, tmp_path / "lrrspm-store.json"}
    assert clear(tmp_path) == (0, 0)


def test_commands(image_folder, tmp_path):
    def run(*arguments, code=0):
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == code, result.output
        return result

    cache, model = tmp_path / "cache", tmp_path / "m"
    fast = ["--method", "LrrSPM", "--codebook-size", "8", "--jobs", "1", "--cache", cache]
    first = run("train", image_folder, "-o", model, *fast).stdout
    content = model.read_bytes()
    assert (
        run("train", image_folder, "-o", model, *fast).stdout.splitlines()[:2]
        == (first.splitlines()[:2])
    )
    assert model.read_bytes() == content
    run("evaluate", image_folder, "--train-per-class", "4", "--splits", "1", *fast)
    run("predict", model, image_folder, "--cache", cache)
    run("score", model, image_folder, "--cache", cache)
    found = json.loads(run("cache", "info", cache, "--json").stdout)
    assert found["bytes"] == sum(path.stat().st_size for path in shards(cache))
    arrays = [(shelf["kind"], shelf["arrays"]) for shelf in found["shelves"]]
    assert sorted(arrays) == [("codebooks", 2), ("patterns", 36), ("vectors", 36), ("vectors", 36)]
    encoders = [
        shelf["about"]["encoder"] for shelf in found["shelves"] if "encoder" in shelf["about"]
    ]
    assert [encoder["name"] for encoder in encoders] == ["LRREncoder"] * 2
    shown = run("cache", "info", cache).stdout
    assert "{" not in shown
    assert "SIFT, LRREncoder, MaxPooling, " in shown
    assert "deleted" in run("cache", "clear", cache).stdout
    assert json.loads(run("cache", "info", cache, "--json").stdout)["bytes"] == 0
    assert json.loads(run("cache", "clear", cache, "--json").stdout)["files"] == 0
    refused = run("train", image_folder, "-o", model, "--cache", image_folder, code=1)
    assert "not empty" in refused.stderr
    assert "not a feature store" in run("cache", "clear", image_folder, code=1).stderr
