"""Remote files are written whole, whatever their store can do."""

import fsspec
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from lrrspm._support import remote
from lrrspm._support.files import write_atomically
from lrrspm._support.remote import (
    RemoteError,
    check_address,
    read_remote,
    without_secrets,
    write_remote,
)
from lrrspm._support.rows import open_rows


class InPlace(MemoryFileSystem):
    """A server whose files grow as they are written, as over SFTP.

    ``renames`` says what a rename does to a file that is there: replace it, refuse, or nothing.
    """

    protocol = "inplace"
    renames = "replace"
    full = False
    opened: list[str] = []  # noqa: RUF012
    pipe_file = AbstractFileSystem.pipe_file

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("inplace://", "memory://"))

    def open(self, path, mode="rb", *rest, **named):
        if mode == "wb":
            self.opened.append(path)
            if self.full:
                self.store[path] = super().open(path, "wb")
                raise OSError("no space left")
        return super().open(path, mode, *rest, **named)

    def mv(self, one, other, **named):
        if self.exists(other) and self.renames != "replace":
            if self.renames == "refuse":
                raise RuntimeError("it exists")
            return
        super().mv(one, other)


@pytest.fixture
def server(monkeypatch):
    fsspec.register_implementation("inplace", InPlace, clobber=True)
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    InPlace.opened.clear()
    return InPlace


@pytest.mark.parametrize("renames", ["replace", "refuse", "nothing"])
def test_no_file_has_its_name_before_it_is_complete(server, monkeypatch, renames):
    monkeypatch.setattr(server, "renames", renames)
    for content in (b"old", b"new"):
        write_atomically("inplace://home/a.csv", content)
        assert read_remote("inplace://home/a.csv", 9) == content
    assert "/home/a.csv" not in server.opened
    monkeypatch.setattr(server, "full", True)
    with pytest.raises(RemoteError, match="no space left"):
        write_atomically("inplace://home/a.csv", b"newest")
    assert list(server.store) == ["/home/a.csv"]
    assert read_remote("inplace://home/a.csv", 9) == b"new"


def test_rows_too(server):
    with open_rows("inplace://home/a.csv", ["path"], "key") as rows:
        rows.append([{"path": "a.png"}])
        rows.finish()
    assert "/home/a.csv" not in server.opened
    assert read_remote("inplace://home/a.csv", 99) == b"path\r\na.png\r\n"
    assert list(server.store) == ["/home/a.csv"]


def test_a_file_at_the_root(server):
    for name in ("inplace://a.csv", "memory://a.csv"):
        with open_rows(name, ["path"], "key") as rows:
            rows.append([{"path": "a.png"}])
            rows.finish()
        assert read_remote(name, 99) == b"path\r\na.png\r\n"
        assert list(server.store) == ["/a.csv"]
        server.store.clear()


class NoBucket:
    """An object store without buckets."""

    def __init__(self):
        self.made = []

    def pipe_file(self, path, content):
        raise FileNotFoundError(path)

    def mkdir(self, path, create_parents):
        assert not create_parents
        self.made.append(path)


@pytest.mark.parametrize(
    ("path", "folders", "made"),
    [("bucket/a", 1, []), ("bucket/a/b/c", 3, ["bucket/a", "bucket/a/b"]),
     ("/home/a", 1, ["/home"])],
)  # fmt: skip
def test_a_bucket_is_never_made(path, folders, made, monkeypatch):
    store = NoBucket()
    monkeypatch.setattr(remote, "_filesystem", lambda _: (store, path))
    with pytest.raises(FileNotFoundError):
        write_remote(f"s3://{path}", b"", folders)
    assert store.made == made


@pytest.mark.parametrize(
    "text",
    [
        "HTTPConnectionPool(host='h', port=50070): Max retries exceeded with url: "
        "/webhdfs/v1/a/b.jpg?delegation=HUSH&op=GETFILESTATUS (Caused by ...)",
        "https://account.blob.core.windows.net/c/a.jpg?sv=2&sig=HUSH: 403",
        "bad SharedAccessSignature=HUSH;EndpointSuffix=x",
        "DefaultEndpointsProtocol=https;AccountKey=HUSH;x=1",
        "{'token': 'HUSH', 'host': 'h'}",
        "aws_secret_access_key = HUSH",
        "s3://me:HUSH@host/a.jpg",
    ],
)
def test_secrets_are_removed_from_messages(text):
    assert "HUSH" not in without_secrets(text)


@pytest.mark.parametrize(
    "text", ["no such key", "503 Slow Down", "s3://bucket/why.jpg is odd", "KeyError: 'a'"]
)
def test_other_messages_stay(text):
    assert without_secrets(text) == text


def test_the_account_of_a_container_is_no_user():
    address = "abfs://container@account.dfs.core.windows.net/images"
    assert check_address(f"{address}/") == address
    for bad in ("abfs://me:word@account/x", "abfs://a@b@account/x", "s3://me@bucket/x"):
        with pytest.raises(ValueError, match="does not belong in an address"):
            check_address(bad)
