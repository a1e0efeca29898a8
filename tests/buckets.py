"""Stores: ``bucket://``, whose objects are files that several processes reach; ``strict://``."""

import os
import secrets
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from lrrspm._support import remote

ROOT = "LRRSPM_TEST_BUCKET"


class Bucket(LocalFileSystem):
    """Objects appear whole, and have no folders that must be made."""

    protocol = "bucket"

    @classmethod
    def _strip_protocol(cls, path):
        if path.startswith("bucket://"):
            path = os.path.join(os.environ[ROOT], path.removeprefix("bucket://"))
        return super()._strip_protocol(path)

    # Reads that are answered with 503, of each file whose path holds this, in this process.
    failures = 0
    where = ""
    asked: dict[str, int] = {}  # noqa: RUF012

    def _ask(self, path):
        count = self.asked[path] = self.asked.get(path, 0) + 1
        if self.where in path and count <= self.failures:
            raise OSError("503 Slow Down")

    def open(self, path, mode="rb", *given, **named):
        if mode == "rb":
            self._ask(path)
        return super().open(path, mode, *given, **named)

    def pipe_file(self, path, value, **named):
        place = Path(self._strip_protocol(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(os.environ[ROOT]) / f".{secrets.token_hex(8)}"
        hidden.write_bytes(value)
        hidden.replace(place)

    def cat_file(self, path, version_id=None, start=None, end=None, **named):
        assert version_id is None  # where s3fs has this argument
        return super().cat_file(path, start=start, end=end, **named)


class Strict(MemoryFileSystem):
    """Files need a folder, as over SFTP."""

    protocol = "strict"
    made = {"/home"}  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("strict://", "memory://"))

    def pipe_file(self, path, value, **named):
        if path.rpartition("/")[0] not in self.made:
            raise FileNotFoundError(path)
        return super().pipe_file(path, value, **named)

    def mkdir(self, path, create_parents=True, **named):
        assert not create_parents
        if path in self.made:
            raise FileExistsError(path)
        if path.rpartition("/")[0] not in self.made:
            raise FileNotFoundError(path)
        self.made.add(path)


def serve(root):
    """Make the store of a folder known to this process."""
    os.environ[ROOT] = str(root)
    fsspec.register_implementation("bucket", Bucket, clobber=True)


def fail(failures, where=""):
    """Answer reads with 503, that often per file; returns how often each was asked for so far."""
    asked = dict(Bucket.asked)
    Bucket.failures, Bucket.where = failures, where
    Bucket.asked.clear()
    remote.PAUSE = 0.0
    return asked
