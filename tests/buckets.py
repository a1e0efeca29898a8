"""An object store that several processes reach, ``bucket://``: objects are files of a folder."""

import os
import secrets
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

ROOT = "LRRSPM_TEST_BUCKET"


class Bucket(LocalFileSystem):
    """Objects appear whole, and have no folders that must be made."""

    protocol = "bucket"

    @classmethod
    def _strip_protocol(cls, path):
        if path.startswith("bucket://"):
            path = os.path.join(os.environ[ROOT], path.removeprefix("bucket://"))
        return super()._strip_protocol(path)

    def pipe_file(self, path, value, **named):
        place = Path(self._strip_protocol(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(os.environ[ROOT]) / f".{secrets.token_hex(8)}"
        hidden.write_bytes(value)
        hidden.replace(place)

    def cat_file(self, path, version_id=None, start=None, end=None, **named):
        assert version_id is None  # where s3fs has this argument
        return super().cat_file(path, start=start, end=end, **named)


def serve(root):
    """Make the store of a folder known to this process."""
    os.environ[ROOT] = str(root)
    fsspec.register_implementation("bucket", Bucket, clobber=True)
