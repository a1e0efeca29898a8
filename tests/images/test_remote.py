"""Images at addresses: found, read, tried again, and never with credentials in a message."""

import hashlib
import json
import os
import sys

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from lrrspm import ImageClassifier, LRREncoder, find_images, read_image
from lrrspm._support import remote
from lrrspm._support.files import check_target, file_digest, file_signature
from lrrspm._support.remote import check_address, read_range, without_secrets
from lrrspm.cli import app
from lrrspm.images import ImageError, KeptImages, TooLargeError, audit, expand_paths


class FlakyFileSystem(MemoryFileSystem):
    """A store that answers 503, as often as ``failures`` says per file."""

    protocol = "flaky"
    failures = 0
    asked: dict[str, int] = {}  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("flaky://", "memory://"))

    def open(self, path, *rest, **named):
        count = self.asked[path] = self.asked.get(path, 0) + 1
        if count <= self.failures:
            raise OSError(f"503 Service Unavailable: https://me:secret@host{path}?sig=abc")
        return super().open(path, *rest, **named)


@pytest.fixture
def store(image_folder):
    """The made images in memory."""
    files = fsspec.filesystem("memory")
    for path in image_folder.glob("*/*.png"):
        files.pipe(f"/images/{path.parent.name}/{path.name}", path.read_bytes())
    files.pipe("/images/dots/.hidden.png", b"")
    files.pipe("/images/dots/notes.txt", b"")
    yield files
    files.rm("/images", recursive=True)


@pytest.fixture
def flaky(store, monkeypatch):
    fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    FlakyFileSystem.asked.clear()
    yield FlakyFileSystem
    FlakyFileSystem.failures = 0


def test_the_same_images_are_found_and_read(store, image_folder):
    paths, labels = find_images(image_folder)
    found, theirs = find_images("memory://images/")
    assert theirs == labels
    assert found[0] == "memory://images/across/00.png"
    for here, there in zip(paths[:3], found[:3], strict=True):
        np.testing.assert_array_equal(read_image(there), read_image(here))
        assert file_digest(there) == file_digest(here)
    assert expand_paths(["memory://images/dots"]) == [p for p in found if "/dots/" in p]
    assert expand_paths(["memory://images/dots/01.png"]) == ["memory://images/dots/01.png"]
    assert audit("memory://images")["images"] == len(paths)


def test_the_same_model_and_rows(store, image_folder, tmp_path):
    digests = []
    for folder in (image_folder, "memory://images"):
        model = ImageClassifier(LRREncoder(codebook_size=8), n_samples=500, random_state=0)
        model.set_params(cache=tmp_path / "store").fit(*find_images(folder)).save(tmp_path / "m")
        digests.append(hashlib.sha256((tmp_path / "m").read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    arguments = ["predict", str(tmp_path / "m"), "memory://images/dots", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["predictions"]
    assert [row["path"] for row in rows] == expand_paths(["memory://images/dots"])


def test_train_and_test_folders(store):
    for part in ("train", "test"):
        store.copy("/images/dots", f"/parts/{part}/dots", recursive=True)
    assert len(find_images("memory://parts", part="test")[0]) == 12
    store.rm("/parts", recursive=True)


def test_an_answer_of_503_is_tried_again(flaky):
    flaky.failures = remote.TRIES - 1
    assert read_image("flaky://images/dots/00.png").shape == (48, 48)
    assert flaky.asked["/images/dots/00.png"] == remote.TRIES
    flaky.failures = remote.TRIES
    flaky.asked.clear()
    with pytest.raises(ImageError, match=r"dots/01\.png: .*503.*tried 4 times") as failure:
        read_image("flaky://images/dots/01.png")
    assert flaky.asked["/images/dots/01.png"] == remote.TRIES
    assert "secret" not in str(failure.value)
    assert "sig=" not in str(failure.value)


def test_folders_named_like_a_split_are_classes_without_folders_in_them(store):
    for part in ("test", "val"):
        store.cp("/images/dots/01.png", f"/images/other/{part}/01.png")
    assert find_images("memory://images/other")[1] == ["test", "val"]
    store.cp("/images/dots/01.png", "/images/other/val/dots/01.png")
    with pytest.warns(UserWarning, match="ignored 2 images outside the class folders"):
        paths, labels = find_images("memory://images/other", part="test")
    assert (paths, labels) == (["memory://images/other/val/dots/01.png"], ["dots"])


def test_what_a_kept_image_asks_for(store, monkeypatch):
    asked = []
    ukey = type(store).ukey

    def spy(self, path):
        asked.append(path)
        return ukey(self, path)

    monkeypatch.setattr(type(store), "ukey", spy)
    address = "memory://images/dots/01.png"
    full = KeptImages(0)
    full.decode(address, None, False)
    assert asked == []  # it will not be kept
    kept = KeptImages()
    first = kept.decode(address, None, False)
    kept.close()
    again = kept.decode(address, None, False)
    assert len(asked) == 2
    np.testing.assert_array_equal(first.pixels, again.pixels)
    kept.decode(address, None, False)
    assert len(asked) == 2


def test_files_that_are_not_there(store, flaky):
    with pytest.raises(ImageError, match="no such file"):
        read_image("flaky://images/nowhere.png")
    with pytest.raises(ValueError, match="no class folders"):
        find_images("memory://nowhere")
    store.pipe("/images/empty.png", b"")
    with pytest.raises(ImageError, match="the file is empty"):
        read_image("memory://images/empty.png")
    assert file_signature("memory://images/nowhere.png") == ()
    assert file_digest("memory://images/nowhere.png") is None


def test_too_large(store, monkeypatch):
    monkeypatch.setattr("lrrspm.images.bounded.MAX_BYTES", 100)
    with pytest.raises(TooLargeError):
        read_image("memory://images/dots/00.png")


def test_a_replaced_file_has_another_signature(store):
    before = file_signature("memory://images/dots/00.png")
    store.pipe("/images/dots/00.png", b"another")
    assert file_signature("memory://images/dots/00.png") != before


class Listed(MemoryFileSystem):
    """A store that answers from its last listing, as s3fs does."""

    protocol = "listed"
    listing: dict[str, dict[str, dict[str, object]]] = {}  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("listed://", "memory://"))

    def find(self, path, *rest, **named):
        for name, about in super().find(path, detail=True).items():
            self.listing.setdefault(self._parent(name), {})[name] = about
        return super().find(path, *rest, **named)

    def info(self, path, **named):
        path = self._strip_protocol(path)
        listed = self.listing.get(self._parent(path), {})
        return listed.get(path) or super().info(path, **named)

    def invalidate_cache(self, path=None):
        self.listing.pop(path, None)


def test_a_replaced_file_that_was_listed_has_another_signature(store):
    fsspec.register_implementation("listed", Listed, clobber=True)
    path = find_images("listed://images")[0][0]
    before = file_signature(path)
    assert file_signature(path) == before
    find_images("listed://images")
    store.pipe("/images/across/00.png", b"another")
    assert file_signature(path) != before


@pytest.mark.parametrize(
    "address",
    ["s3://key:secret@bucket/images", "https://host/images?sig=secret", "https://token@host/images",
     "az://bucket/images?sig=secret", "s3://key:sec/ret@bucket/images", "s3://bucket/images?secret",
     "s3://key:12/secret@bucket/images", "s3://key:p@secret@bucket", "s3://key:p@s/secret@bucket"],
)  # fmt: skip
def test_credentials_are_refused(address, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text(f"path\n{address}/1.jpg\n")
    with pytest.raises(ImageError) as failure:
        read_image(f"{address}/1.jpg")
    for arguments in (["audit", address], ["predict", "m", address], ["predict", "m", str(table)]):
        if arguments[0] == "predict":
            with pytest.raises(ValueError, match="does not belong in an address") as refused:
                expand_paths(arguments[2:])
            text = str(refused.value)
        else:
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 1
            text = result.output
        assert "secret" not in text
    assert "secret" not in str(failure.value)
    assert file_signature(f"{address}/1.jpg") == ()
    assert file_digest(f"{address}/1.jpg") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("s3://key:p@ss@bucket", "s3://bucket"), ("s3://key:p@s/s@bucket/a", "s3://bucket/a"),
     ("503: s3://key:12/s@bucket", "503: s3://bucket"), ("s3://bucket/a@b", "s3://bucket/a@b"),
     ("no host:80/a at https://host:80/a b@c", "no host:80/a at https://host:80/a b@c")],
)  # fmt: skip
def test_secrets_are_removed_from_texts(text, expected):
    assert without_secrets(text) == expected


class NoConnection(MemoryFileSystem):
    """A store that connects when it is made, and fails as often as ``failures`` says."""

    protocol = "unreached"
    cachable = False
    failures = 0
    asked = 0

    def __init__(self, **named):
        NoConnection.asked += 1
        if self.asked <= self.failures:
            raise RuntimeError("no answer from https://me:secret@host/x?sig=abc")
        super().__init__(**named)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("unreached://", "memory://"))


def test_connecting_is_tried_again(store, monkeypatch):
    fsspec.register_implementation("unreached", NoConnection, clobber=True)
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    monkeypatch.setattr(NoConnection, "failures", remote.TRIES - 1)
    assert len(read_range("unreached://images/dots/00.png", 0, 10)) == 10
    monkeypatch.setattr(NoConnection, "failures", 10**9)
    monkeypatch.setattr(NoConnection, "asked", 0)
    for function, error in ((read_image, ImageError), (check_target, OSError)):
        with pytest.raises(error, match=r"no answer from https://host/x \(tried 4") as failure:
            function("unreached://images/dots/00.png")
        assert "secret" not in str(failure.value)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"lrrspm\[cloud\]"):
        read_image("s3://bucket/1.jpg")


@pytest.mark.parametrize(
    ("address", "expected"),
    [("memory://", "memory://"), ("S3://bucket/a/", "s3://bucket/a"),
     ("hdfs://host:8020/a", "hdfs://host:8020/a"), ("s3://bucket/a@b", "s3://bucket/a@b")],
)  # fmt: skip
def test_addresses_that_are_taken(address, expected):
    assert check_address(address) == expected


def test_a_file_of_this_machine_is_given_by_its_path(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="give the path alone"):
        expand_paths([f"file://{tmp_path}/pipe.png"])
