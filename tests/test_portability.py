"""lrrspm where the system has less: what Windows and macOS lack is taken away from a process."""

import subprocess
import sys

import pytest

_WITHOUT = """
import asyncio, multiprocessing, os, signal, socket, subprocess, sys, tempfile

# Libraries of others are loaded first: they are right about the system that they are on.
import joblib, matplotlib.pyplot, numba, pandas, PIL.Image, psutil, pooch, requests, rich, sklearn
import fastapi, safetensors.numpy, scipy.linalg, typer, uvicorn, uvicorn.protocols.http.h11_impl

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for owner, names in (
    (os, "O_NONBLOCK fork forkpty getpgid getuid geteuid killpg mkfifo register_at_fork setsid"),
    (signal, "SIGCHLD SIGKILL SIGHUP SIGSTOP SIGPIPE pause"),
    (socket, "AF_UNIX TCP_USER_TIMEOUT recv_fds send_fds socketpair"),
    (psutil.Process, "num_fds"),
):
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)
sys.platform = "win32"

class Memory:
    rss = vms = peak_wset = 10**8

psutil.Process.memory_info = lambda self: Memory
"""
"""Gives Windows' lack of modules and functions to what is imported afterwards."""


def run(script, *arguments):
    command = [sys.executable, "-X", "warn_default_encoding", "-c", _WITHOUT + script]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, check=False
    )


_ALL_MODULES = """
import importlib, pkgutil, lrrspm
skipped = ("lrrspm.__main__", "lrrspm.gpu.", "lrrspm.serve.nursery")
for module in pkgutil.walk_packages(lrrspm.__path__, "lrrspm."):
    if not module.name.startswith(skipped):
        importlib.import_module(module.name)
from lrrspm.serve.connection import max_connections
from lrrspm.serve.processes import CAN_ISOLATE
print(CAN_ISOLATE, max_connections() > 100)
"""


def test_everything_can_be_imported():
    done = run(_ALL_MODULES)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    "command",
    [
        ["train", "IMAGES", "-o", "MODEL", "--method", "fast", "--no-estimate", "--jobs", "2"],
        ["predict", "TRAINED", "IMAGES/dots/00.png", "--json"],
    ],
    ids=lambda command: command[0],
)
def test_commands(command, image_folder, model_path, tmp_path):
    places = {"IMAGES": image_folder, "MODEL": tmp_path / "m", "TRAINED": model_path}
    for name, place in places.items():
        command = [word.replace(name, str(place)) for word in command]
    done = run("from lrrspm.cli import app\napp()", *command)
    assert done.returncode == 0, done.stderr
    ours = [line for line in done.stderr.splitlines() if "src/lrrspm" in line]
    assert ours == []  # no text file in the encoding of the system


def test_fork_of_macos_is_not_used():
    done = run(
        "sys.platform = 'darwin'; os.fork = print\nimport lrrspm.serve.processes as found\n"
        "print(found.CAN_ISOLATE)"
    )
    assert done.stdout.strip() == "False", done.stderr
