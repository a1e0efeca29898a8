"""The feature store at an address: the same bits, whatever the object store answers."""

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from lrrspm import find_images
from lrrspm._support import remote
from lrrspm._support.remote import RemoteError, list_folder, write_remote
from lrrspm.cache import FeatureStore, StoreError, clear
from lrrspm.cache.shelf import SHARD, Form
from lrrspm.cli import app
from lrrspm.pipeline.streaming import worker_store
from tests.buckets import Strict
from tests.cache.stores import counts, model_bytes, small
from tests.conftest import replace_reader

ANY = Form(("F32", "F64"), (range(1, 10**6),))
ADDRESS = "memory://bucket/store"


@pytest.fixture
def bucket():
    """An empty object store."""
    return fsspec.filesystem("memory")


def objects(files, kind="*"):
    return sorted(files.glob(f"/bucket/store/{kind}/*/*.safetensors"))


class Failing(MemoryFileSystem):
    """An object store that answers 503 to what is listed in ``refused``, or to some of it.

    And only to paths that hold what ``where`` says.
    """

    protocol = "failing"
    refused = ()
    where = ""
    failures = 10**9
    asked = 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("failing://", "memory://"))

    def _ask(self, verb, path):
        if verb in self.refused and self.where in path:
            Failing.asked += 1
            if Failing.asked <= self.failures:
                raise OSError("503 Slow Down: https://me:secret@host/bucket?sig=abc")

    def ls(self, path, *given, **named):
        self._ask("list", path)
        return super().ls(path, *given, **named)

    def pipe_file(self, path, *given, **named):
        self._ask("write", path)
        return super().pipe_file(path, *given, **named)

    def cat_file(self, path, *given, **named):
        self._ask("read", path)
        return super().cat_file(path, *given, **named)

    def open(self, path, mode="rb", *given, **named):
        if mode == "rb":
            self._ask("read", path)
        return super().open(path, mode, *given, **named)


@pytest.fixture
def failing(bucket, monkeypatch):
    fsspec.register_implementation("failing", Failing, clobber=True)
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    monkeypatch.setattr(Failing, "asked", 0)
    return Failing


def test_model_files_are_the_same_without_cold_warm_and_half_filled(
    image_folder, tmp_path, bucket, reads, learned
):
    plainly = model_bytes(image_folder, tmp_path / "m", None, method="LrrSPM")
    assert model_bytes(image_folder, tmp_path / "m", ADDRESS, method="LrrSPM") == plainly
    assert counts(ADDRESS) == {"codebooks": 1, "samples": 0, "vectors": 36}
    del reads[:], learned[:]
    assert model_bytes(image_folder, tmp_path / "m", ADDRESS, method="LrrSPM") == plainly
    assert (reads, learned) == ([], [])
    for kind in ("vectors", "codebooks"):
        bucket.rm(objects(bucket, kind)[0])
        assert model_bytes(image_folder, tmp_path / "m", ADDRESS, method="LrrSPM") == plainly
        assert len(reads) == 36
        del reads[:]


def test_objects_are_those_of_a_folder(image_folder, tmp_path, bucket):
    paths, _ = find_images(image_folder)
    for cache in (tmp_path / "store", ADDRESS):
        small(cache).fit(paths).transform(paths)
    here = {str(p.relative_to(tmp_path / "store")): p.read_bytes()
            for p in (tmp_path / "store").rglob("*.*")}  # fmt: skip
    there = {p.removeprefix("/bucket/store/"): bucket.cat_file(p)
             for p in bucket.find("/bucket/store")}  # fmt: skip
    assert here == there


def test_shards_of_others_are_seen(bucket):
    mine, theirs = (FeatureStore(ADDRESS).shelf("vectors", {"x": 1}, ANY) for _ in range(2))
    for n in range(2 * SHARD):
        theirs.put(str(n), np.full(3, n, np.float32))
    assert list(mine.fetch(["5"])) == []
    mine.look_again()
    assert [(name, array[0]) for name, array in mine.fetch(["5", "99"])] == [("5", 5), ("99", 99)]


def test_a_long_header_is_read_whole(bucket):
    shelf = FeatureStore(ADDRESS).shelf("vectors", {"x": "y" * 20_000}, ANY)
    shelf.put("a", np.ones(3))
    shelf.flush()
    again = FeatureStore(ADDRESS).shelf("vectors", {"x": "y" * 20_000}, ANY)
    assert [name for name, _ in again.fetch(["a"])] == ["a"]


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_damaged_objects_are_deleted_and_computed_again(image_folder, bucket, damage):
    paths, _ = find_images(image_folder)
    expected = small(ADDRESS).fit(paths).transform(paths)
    (path,) = objects(bucket, "vectors")
    content = bytearray(bucket.cat_file(path))
    content[-1] ^= 1
    bucket.pipe_file(path, bytes(content) if damage is None else damage)
    with pytest.warns(UserWarning, match="memory://bucket/store/vectors/.*damaged"):
        np.testing.assert_array_equal(small(ADDRESS).fit(paths).transform(paths), expected)
    assert counts(ADDRESS)["vectors"] == 36


def test_answers_of_503_are_tried_again(image_folder, failing, monkeypatch):
    paths, _ = find_images(image_folder)
    expected = small().fit(paths).transform(paths)
    monkeypatch.setattr(failing, "failures", remote.TRIES - 1)
    for refused in ("write", "read"):
        monkeypatch.setattr(failing, "refused", (refused,))
        monkeypatch.setattr(failing, "asked", 0)
        found = small("failing://bucket/store").fit(paths).transform(paths)
        np.testing.assert_array_equal(found, expected)
    assert counts("failing://bucket/store")["vectors"] == 36


def test_a_store_that_stops_taking_objects_is_said_once(image_folder, failing, monkeypatch):
    paths, _ = find_images(image_folder)
    expected = small().fit(paths).transform(paths)
    FeatureStore("failing://bucket/store")
    monkeypatch.setattr(failing, "refused", ("write",))
    with pytest.warns(UserWarning, match="cannot write .*503.*going on without") as caught:
        features = small("failing://bucket/store").fit(paths)
    with pytest.warns(UserWarning, match="cannot write"):
        np.testing.assert_array_equal(features.transform(paths), expected)
    assert len(caught) == 1
    assert "secret" not in str(caught[0].message)


def test_objects_that_cannot_be_read_are_computed_again(image_folder, failing, reads, monkeypatch):
    paths, _ = find_images(image_folder)
    features = small("failing://bucket/store").fit(paths)
    expected = features.transform(paths)
    monkeypatch.setattr(failing, "refused", ("read",))
    monkeypatch.setattr(failing, "where", "/vectors/")
    reads.clear()
    with pytest.warns(UserWarning, match="cannot be read .*503.* computed again"):
        np.testing.assert_array_equal(features.transform(paths), expected)
    assert len(reads) == len(paths)
    monkeypatch.setattr(failing, "refused", ())  # they are still there
    reads.clear()
    np.testing.assert_array_equal(features.transform(paths), expected)
    assert reads == []


def test_an_object_that_can_no_longer_be_read(failing, monkeypatch):
    shelf = FeatureStore("failing://bucket/store").shelf("vectors", {"x": 1}, ANY)
    shelf.put("a", np.ones(3))
    shelf.flush()
    monkeypatch.setattr(failing, "refused", ("read",))
    with pytest.warns(UserWarning, match="cannot be read .*503"):
        assert list(shelf.fetch(["a"])) == []
    with pytest.raises(StoreError, match="503"):
        FeatureStore("failing://bucket/store")


def test_a_store_that_does_not_list_is_said_once(image_folder, failing, monkeypatch):
    paths, _ = find_images(image_folder)
    features = small("failing://bucket/store").fit(paths)
    expected = features.transform(paths)
    monkeypatch.setattr(failing, "refused", ("list",))
    monkeypatch.setattr(failing, "where", "/vectors/")
    with pytest.warns(UserWarning, match="cannot list .*503.*going on without") as caught:
        np.testing.assert_array_equal(features.transform(paths), expected)
    assert len(caught) == 1


def test_a_worker_that_cannot_open_the_store_goes_on(image_folder, failing, monkeypatch):
    monkeypatch.setattr(failing, "refused", ("list",))
    store = worker_store("failing://bucket/store")
    assert not store.active
    assert "503" in str(store.trouble)
    monkeypatch.setattr(failing, "refused", ())
    assert worker_store("failing://bucket/store").active


def test_what_cannot_be_a_store(bucket, monkeypatch):
    bucket.pipe("/bucket/other/photo.jpg", b"")
    with pytest.raises(StoreError, match=r"other: not a feature store, and not empty \(photo"):
        FeatureStore("memory://bucket/other")
    bucket.pipe("/bucket/broken/lrrspm-store.json", b"{")
    with pytest.raises(StoreError, match=r"broken/lrrspm-store\.json: damaged"):
        FeatureStore("memory://bucket/broken")
    with pytest.raises(ValueError, match="does not belong in an address"):
        FeatureStore("s3://me:secret@bucket/store")
    with pytest.raises(StoreError, match="not a feature store"):
        clear("memory://bucket/other")


def test_folders_are_made_below_what_was_given_alone(bucket, monkeypatch):
    fsspec.register_implementation("strict", Strict, clobber=True)
    monkeypatch.setattr(Strict, "made", {"/home"})
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    shelf = FeatureStore("strict://home/store").shelf("vectors", {"x": 1}, ANY)
    shelf.put("a", np.ones(3))
    shelf.flush()
    assert {"/home/store", "/home/store/vectors"} < Strict.made
    with pytest.raises(StoreError, match="cannot become a feature store"):
        FeatureStore("strict://elsewhere/store")
    with pytest.raises((RemoteError, FileNotFoundError)):
        write_remote("strict://home/new/file", b"")


def test_the_command_line(image_folder, tmp_path, bucket, monkeypatch):
    run = CliRunner().invoke
    train = ["train", str(image_folder), "-o", str(tmp_path / "m"), "--cache", ADDRESS,
             "--method", "LrrSPM", "--codebook-size", "8", "--no-estimate"]  # fmt: skip
    first = run(app, train)
    assert first.exit_code == 0, first.output
    info = run(app, ["cache", "info", ADDRESS])
    assert info.exit_code == 0, info.output
    assert "vectors" in info.output
    assert ADDRESS in info.output.replace("\n", "")

    def fail(path):
        raise AssertionError(f"read {path}")

    replace_reader(monkeypatch, fail)
    bytes_ = (tmp_path / "m").read_bytes()
    again = run(app, train)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "m").read_bytes() == bytes_
    assert run(app, ["cache", "clear", ADDRESS]).exit_code == 0
    assert objects(bucket) == []
    assert [path for path, size in list_folder(ADDRESS).items() if size is not None] == [
        "lrrspm-store.json"
    ]
    refused = run(app, ["cache", "info", "memory://nowhere"])
    assert refused.exit_code == 1
    assert "not a feature store" in refused.output
