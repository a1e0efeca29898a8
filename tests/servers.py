"""Servers in processes of their own."""

import subprocess
import sys
from contextlib import contextmanager

from .conftest import hear_ctrl_c


@contextmanager
def serving(*arguments):
    """A server in a process of its own, and what it says once it answers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lrrspm", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
