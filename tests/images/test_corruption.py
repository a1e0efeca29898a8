"""Damaged images of every format: nothing crashes, hangs or goes unnamed."""

import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from lrrspm import read_image
from tests.conftest import draw, run_alone

ENDINGS = ("jpg", "png", "webp", "tif", "bmp", "gif", "pgm")
EACH = 40  # of five kinds of damage

# Reads each file; one that takes five seconds ends the process with a traceback.
READ_ALL = """
import faulthandler, json, sys
import numpy as np
from lrrspm import read_image
from lrrspm.images import ImageError

messages = {}
for path in json.load(sys.stdin):
    faulthandler.dump_traceback_later(5, exit=True)
    try:
        assert np.isfinite(read_image(path)).all(), path
    except ImageError as error:
        messages[path] = str(error)
    faulthandler.cancel_dump_traceback_later()
print(json.dumps(messages))
"""


def encode(ending: str) -> bytes:
    """An image as a file of a format, as small as it comes and not compressed to nothing."""
    image = Image.fromarray(draw("dots", np.random.default_rng(0), 40))
    if ending in ("jpg", "png", "bmp"):
        image = image.convert("RGB")
    file = io.BytesIO()
    compression = "tiff_lzw" if ending == "tif" else None
    kind = Image.registered_extensions()["." + ending]
    image.save(file, kind, lossless=True, compression=compression)
    return file.getvalue()


def truncate(content, rng):
    return content[: rng.integers(len(content))]


def flip_bits(content, rng):
    values = np.frombuffer(content, np.uint8).copy()
    places = rng.integers(len(values), size=rng.integers(1, 9))
    values[places] ^= (1 << rng.integers(8, size=len(places))).astype(np.uint8)
    return values.tobytes()


def zero_span(content, rng):
    start = rng.integers(len(content))
    length = min(int(rng.integers(1, 200)), len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def edit_header(content, rng):
    values = bytearray(content)
    for place in rng.integers(min(64, len(values)), size=rng.integers(1, 4)):
        values[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.integers(256)])
    return bytes(values)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Folder of damaged images, and of whole ones under wrong names."""
    root = tmp_path_factory.mktemp("damaged")
    rng = np.random.default_rng(0)
    for number, ending in enumerate(ENDINGS):
        content = encode(ending)
        for damage in (truncate, flip_bits, zero_span, edit_header):
            for i in range(EACH):
                name = f"{ending}-{damage.__name__}-{i}.{ending}"
                (root / name).write_bytes(damage(content, rng))
        for i in range(EACH):
            wrong = ENDINGS[(number + 1 + i % (len(ENDINGS) - 1)) % len(ENDINGS)]
            (root / f"{ending}-renamed-{i}.{wrong}").write_bytes(content)
    return root


@pytest.fixture(scope="module")
def messages(damaged):
    """What was wrong with each file that could not be read."""
    paths = sorted(str(path) for path in damaged.iterdir())
    assert len(paths) == len(ENDINGS) * 5 * EACH
    done = run_alone(READ_ALL, json.dumps(paths))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_refusal_names_file_and_reason(messages):
    for path, message in messages.items():
        assert message.startswith(f"{path}: ")
        assert len(message) > len(path) + 10
    refused = dict.fromkeys(ENDINGS, 0)
    for path in messages:
        refused[path.rsplit("/", 1)[1].split("-")[0]] += 1
    # Of 80 with missing bytes or another header most cannot be read.
    assert min(refused.values()) > 30, refused


def test_truncated_files_are_refused(messages, damaged):
    read = [p.name for p in damaged.glob("*-truncate-*") if str(p) not in messages]
    # What a lossless file lost may have been behind its last pixel.
    for name in read:
        kind = name.split("-")[0]
        whole = read_image(whole_file(damaged, encode(kind), kind))
        np.testing.assert_array_equal(read_image(damaged / name), whole, err_msg=name)
    assert len(read) < 10


def whole_file(folder, content, ending):
    path = folder.parent / f"whole.{ending}"
    path.write_bytes(content)
    return path


def test_the_content_decides_not_the_name(messages, damaged):
    for ending in ENDINGS:
        whole = read_image(whole_file(damaged, encode(ending), ending))
        for path in damaged.glob(f"{ending}-renamed-*"):
            assert str(path) not in messages
            np.testing.assert_array_equal(read_image(path), whole)


def test_the_run_over_the_rest_finishes(messages, damaged, pictures, model_path, tmp_path):
    shutil.copytree(damaged, tmp_path / "all")
    shutil.copytree(pictures / "dots", tmp_path / "all" / "good")
    done = subprocess.run(
        [sys.executable, "-m", "lrrspm", "predict", model_path, tmp_path / "all", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    skipped = {entry["path"]: entry["reason"] for entry in found["skipped"]}
    assert skipped == {
        path.replace(str(damaged), str(tmp_path / "all")): message.removeprefix(f"{path}: ")
        for path, message in messages.items()
    }
    assert len(found["predictions"]) == len(ENDINGS) * 5 * EACH + 12 - len(messages)
    good = [entry for entry in found["predictions"] if "/good/" in entry["path"]]
    assert [entry["label"] for entry in good] == ["dots"] * 12
    for path in skipped:
        assert f"skipped {path}: " in done.stderr
