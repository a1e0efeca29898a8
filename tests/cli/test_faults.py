"""Machines that fail and terminals of few letters: the right message, nothing lost."""

import json
import os
import resource
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes with Cyrillic names, six color images each."""
    root = tmp_path_factory.mktemp("faults")
    rng = np.random.default_rng(0)
    for place, name in enumerate(("\u043a\u043e\u0442", "\u043f\u0451\u0441")):
        (root / name).mkdir()
        for i in range(6):
            pixels = rng.integers(0, 100 + 100 * place, (40, 40, 3), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


def run(*arguments, before=None, script=None, **environment):
    command = [sys.executable, *(("-c", script) if script else ("-m", "lrrspm")), *arguments]
    return subprocess.run(
        list(map(str, command)),
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
        preexec_fn=before,
    )


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "a.lrrspm"
    done = run("train", folder, "-o", path, "--codebook-size", 8)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
@pytest.mark.parametrize("form", [(), ("--csv",)])
def test_letters_that_a_terminal_lacks_are_escaped(encoding, form, model, folder):
    image = folder / "\u043a\u043e\u0442" / "0.png"
    done = run("predict", model, image, *form, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    whole = encoding == "utf-8"
    assert ("\u043a\u043e\u0442".encode() if whole else rb"\u043a\u043e\u0442") in done.stdout


def test_training_prints_on_a_terminal_of_few_letters(folder, tmp_path):
    done = run(
        "train", folder, "-o", tmp_path / "\u044f.lrrspm", "--codebook-size", 8,
        PYTHONIOENCODING="cp1252",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert rb"\u044f.lrrspm" in done.stdout


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_do_not_matter(closed, folder, tmp_path):
    def close():
        for descriptor in closed:
            os.close(descriptor)

    path = tmp_path / "a.lrrspm"
    done = run("train", folder, "-o", path, "--codebook-size", 8, before=close)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert run("info", path).returncode == 0


# Reads what is needed first, then leaves no room for another file.
FEW_FILES = """
import os, resource, sys
import lrrspm.images, lrrspm.pipeline, lrrspm.evaluation
from lrrspm.cli import app
from lrrspm.images import find_images
from lrrspm.pipeline import chunks
from lrrspm.pipeline.chunks import compile_reading

def limit():
    compile_reading()
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))

import lrrspm.pipeline.sampling as sampling
sampling.compile_reading = limit
app(sys.argv[1:])
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files as Linux does")
def test_too_many_open_files_end_the_run(folder, tmp_path):
    path = tmp_path / "a.lrrspm"
    done = run(
        "train", folder, "-o", path, "--codebook-size", 8, "--on-error", "skip", "--jobs", 1,
        "--json", script=FEW_FILES,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    message = json.loads(done.stdout)["error"]
    assert "Too many open files" in message
    assert "ulimit -n" in message
    assert "cannot be read" not in message
    assert not path.exists()


def test_a_full_disk_names_the_model(folder, tmp_path):
    """A limit on the size of files stands for a full disk."""
    path = tmp_path / "a.lrrspm"

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = run("train", folder, "-o", path, "--codebook-size", 8, before=limit)
    assert done.returncode == 1
    assert str(path).encode() in done.stderr
    assert b"images" not in done.stderr
    assert not path.exists()


@pytest.mark.parametrize("command", [("info",), ("predict", "x.png")])
def test_escape_characters_in_a_path_are_escaped(command, model, tmp_path):
    name, *rest = command
    path = tmp_path / "a\x1b[31mb.lrrspm"
    path.write_bytes(model.read_bytes())
    done = run(name, path, *rest)
    assert b"\x1b" not in done.stdout + done.stderr


def test_escape_characters_in_a_store_are_escaped(folder, model, tmp_path):
    store = tmp_path / "a\x1b[31mb"
    run("predict", model, folder, "--cache", store)
    for command in ("info", "clear"):
        done = run("cache", command, store)
        assert done.returncode == 0, done.stderr
        assert b"\x1b" not in done.stdout + done.stderr
