"""What tests of the server share."""

import io
import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
from PIL import Image

from tests.conftest import hear_ctrl_c


def serving(*arguments, **settings):
    """A server in a process of its own, and what it says once it answers."""
    return started("-m", "lrrspm", "serve", *map(str, arguments), **settings)


@contextmanager
def started(*arguments, **settings):
    """A process of Python's that can be interrupted, and the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
        **settings,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def port_of(said):
    """The port of a server that was started with ``--json``."""
    return int(json.loads(said)["url"].split(":")[2].strip("/"))


def limited(**limits):
    """Have a test's ``worker`` keep to limits."""
    return pytest.mark.parametrize("worker", [limits], indirect=True)


def saved(pixels, kind="PNG", **settings):
    """The bytes of a picture file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **settings)
    return file.getvalue()


def send(client, address, *pictures, **named):
    """Upload pictures, each of them bytes or a pair of a name and bytes."""
    field = "files" if "predict" in address else "file"
    return client.post(address, files=[(field, picture) for picture in pictures], **named)
