"""Helpers for tests of the server."""

import io
import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
from PIL import Image

from tests.conftest import hear_ctrl_c


def serving(*arguments, **settings):
    """Run a server in a process of its own; gives the process and its first line of output."""
    return started("-m", "lrrspm", "serve", *map(str, arguments), **settings)


@contextmanager
def started(*arguments, before=hear_ctrl_c, **settings):
    """Run Python in a process that can be interrupted; gives it and its first line of output."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
        **settings,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def port_of(line):
    """Return the port of a server that was started with ``--json``."""
    return int(json.loads(line)["url"].split(":")[2].strip("/"))


def limited(**limits):
    """Give the limits of a test's ``worker``."""
    return pytest.mark.parametrize("worker", [limits], indirect=True)


def encoded(pixels, kind="PNG", **settings):
    """Return the bytes of an image file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **settings)
    return file.getvalue()


def send(client, address, *images, **named):
    """Upload images, each of them bytes or a pair of name and bytes."""
    field = "files" if "predict" in address else "file"
    return client.post(address, files=[(field, image) for image in images], **named)
