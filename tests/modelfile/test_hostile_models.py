"""Model files that were made to do harm: all are refused, quickly, in little memory."""

import io
import json
import os
import pickle
import struct
import sys
import zipfile

import joblib
import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from lrrspm import load_model
from lrrspm.cli import app
from lrrspm.modelfile.container import MAX_HEADER, ModelFileError, write_model
from tests.conftest import run_alone
from tests.modelfile.test_modelfile import header, rewrite

LOAD_ALL = """
import json, resource, sys, time
from lrrspm import load_model
from lrrspm.modelfile.container import ModelFileError

good, *paths = json.load(sys.stdin)
load_model(good)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = {}
for path in paths:
    start = time.perf_counter()
    try:
        load_model(path)
        message = None
    except ModelFileError as error:
        message = str(error)
    found[path] = (message, time.perf_counter() - start)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([found, after - before]))
"""


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.mkdir, (str(self.canary),)


def raw(head, data=b"", length=None):
    """A safetensors file of any header, be it true or not."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def containers(good, canary):
    """Files of another kind, or whose outer layer lies."""
    evil = Evil(canary)
    packed, archive = io.BytesIO(), io.BytesIO()
    joblib.dump(evil, packed)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model/data.pkl", pickle.dumps(evil))
    objects = io.BytesIO()
    np.save(objects, np.array([evil], dtype=object), allow_pickle=True)
    text = json.dumps(header(good))
    meta = {"__metadata__": {"lrrspm": text}}
    content = good.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return {
        "pickle": pickle.dumps(evil),
        "old pickle": pickle.dumps(evil, 0),
        "joblib": packed.getvalue(),
        "archive": archive.getvalue(),
        "npy of objects": objects.getvalue(),
        "empty": b"",
        "seven bytes": bytes(7),
        "zeros": bytes(1000),
        "giant header length": raw({}, length=2**63),
        "header length beyond the file": raw({}, length=10**6),
        "header length of minus one": b"\xff" * 8 + b"{}",
        "long header": raw(b"{" + b" " * (2 * MAX_HEADER) + b"}"),
        "deep header": raw(b'{"__metadata__":' + b"[" * 10**6),
        "header of many tensors": raw(
            {f"{i:06}": tensor([0], 0, 0) for i in range(MAX_HEADER // 80)} | meta
        ),
        "header that is no text": raw(b"\xff\xfe{}"),
        "header that is a list": raw(b"[]"),
        "truncated": content[: len(content) // 2],
        "one byte more": content + b"\0",
        "overlapping tensors": raw(
            {**meta, "codebook": tensor([2, 128], 0, 1024), "svm.coef": tensor([2], 4, 12)},
            bytes(1024),
        ),
        "tensor beyond the file": raw({**meta, "codebook": tensor([2**30, 128], 0, 2**39)}),
        "overflowing shape": raw({**meta, "codebook": tensor([2**62, 4, 2**62], 0, 16)}, bytes(16)),
        "negative shape": raw({**meta, "codebook": tensor([-2, -128], 0, 1024)}, bytes(1024)),
        "offsets backwards": raw({**meta, "codebook": tensor([1], 8, 4)}, bytes(8)),
        "hole between tensors": raw({**meta, "codebook": tensor([1], 4, 8)}, bytes(8)),
        "unknown dtype": raw({**meta, "codebook": tensor([1], 0, 4, "PICKLE")}, bytes(4)),
        "no metadata": content[:8] + b"{" + b" " * (size - 2) + b"}" + content[8 + size :],
        "metadata that is no text": raw({"__metadata__": {"lrrspm": {"a": 1}}}),
    }


def descriptions(model_arrays):
    """Changes to the description and the arrays of a good model."""
    half = {name: array.astype(np.float16) for name, array in model_arrays.items()}

    def longest(d, _):
        d["classes"] = ["a" * 10**6, *(f"b{i:06}" for i in range(10**5))]

    return {
        "newer format": lambda d, a: d.update(format=2),
        "format that is a text": lambda d, a: d.update(format="1"),
        "no parameters": lambda d, a: d.pop("parameters"),
        "no step": lambda d, a: d["parameters"].pop("step"),
        "no encoder": lambda d, a: d.pop("encoder"),
        "no codebook": lambda d, a: a.pop("codebook"),
        "one array more": lambda d, a: a.update(extra=np.zeros(3, np.float32)),
        "array named as a path": lambda d, a: a.update({"../canary": np.zeros(3, np.float32)}),
        "encoder named as a path": lambda d, a: d["encoder"].update(type="/etc/passwd"),
        "encoder named as a function": lambda d, a: d["encoder"].update(type="os.mkdir"),
        "codebook named as a path": lambda d, a: d["encoder"]["parameters"].update(codebook="x"),
        "method that is code": lambda d, a: d["parameters"].update(method="__import__('os')"),
        "giant patch": lambda d, a: d["parameters"].update(patch_size=2**20),
        "giant step": lambda d, a: d["parameters"].update(step=2**64),
        "giant pyramid": lambda d, a: d["parameters"].update(levels=[2**40]),
        "many levels": lambda d, a: d["parameters"].update(levels=[1] * 10**5),
        "half a step": lambda d, a: d["parameters"].update(step=2.5),
        "true as a number": lambda d, a: d["parameters"].update(step=True),
        "half precision": lambda d, a: a.update(half),
        "whole numbers": lambda d, a: a.update(codebook=a["codebook"].astype(np.int32)),
        "not a number": lambda d, a: a["encoder.projection"].__setitem__((0, 0), np.nan),
        "infinite": lambda d, a: a["svm.coef"].__setitem__((0, 0), np.inf),
        "no atoms": lambda d, a: a.update(codebook=a["codebook"][:0]),
        "short atoms": lambda d, a: a.update(codebook=a["codebook"][:, :64].copy()),
        "fewer classes": lambda d, a: d.update(classes=d["classes"][:2]),
        "very long class name": longest,
        "classes that are objects": lambda d, a: d.update(classes=[10**30, 10**31, 10**32]),
        "summary that is a list": lambda d, a: d.update(summary=[1, 2]),
        "no library": lambda d, a: d.pop("library"),
        "library that is a novel": lambda d, a: d.update(library="0" * 10**5),
        "superfluous parameter": lambda d, a: d["parameters"].update(hook="os.mkdir"),
        "negative count": lambda d, a: d["summary"].update(images=-5),
        "estimate that is true": lambda d, a: d["summary"].update(
            held_out={"accuracy": True, "images": 3}
        ),
        "counts that are no numbers": lambda d, a: d["summary"].update(images="many"),
        "estimate that is no percentage": lambda d, a: d["summary"].update(
            held_out={"accuracy": 1e300, "images": 3}
        ),
    }


@pytest.fixture(scope="module")
def hostile(model_path, tmp_path_factory):
    """The files, and the folder that appears should one of them be obeyed."""
    folder = tmp_path_factory.mktemp("hostile")
    canary = folder / "canary"
    made = []
    for name, content in containers(model_path, canary).items():
        (folder / name).write_bytes(content)
        made.append(folder / name)
    for name, change in descriptions(load_file(model_path)).items():
        made.append(rewrite(model_path, folder / name, change))
    text = json.dumps(header(model_path))
    for name, description in {
        "description that is no JSON": "{",
        "deep description": "[" * 10**6,
        "description with NaN": text.replace("0.98", "NaN"),
        "description with a long number": text.replace("0.98", "9" * 10**5),
    }.items():
        (folder / name).write_bytes(raw({"__metadata__": {"lrrspm": description}}))
        made.append(folder / name)
    # Whole models but for one thing.
    content = model_path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    whole, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    nan = {"lrrspm": text.replace("0.98", "NaN", 1)}
    for name, bytes_ in {
        "whole but for a NaN": raw({**whole, "__metadata__": nan}, data),
        "whole but for a padded header": raw(content[8 : 8 + size] + b" " * MAX_HEADER, data),
    }.items():
        (folder / name).write_bytes(bytes_)
        made.append(folder / name)
    # A file that is as large as it says, but takes no room on the disk.
    size = 2**33
    content = raw({"__metadata__": {"lrrspm": text}, "codebook": tensor([2**24, 128], 0, size)})
    with (folder / "sparse file").open("wb") as file:
        file.write(content)
        file.truncate(len(content) + size)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link to a device").symlink_to("/dev/zero")
    (folder / "link to itself").symlink_to("link to itself")
    made += [
        folder / name
        for name in ("sparse file", "folder", "pipe", "link to a device", "link to itself")
    ]
    return made, canary


def test_all_are_refused(hostile, model_path):
    made, canary = hostile
    assert len(made) >= 50
    done = run_alone(LOAD_ALL, json.dumps([str(path) for path in (model_path, *made)]))
    assert done.returncode == 0, done.stderr
    found, growth = json.loads(done.stdout)
    for path in made:
        message, seconds = found[str(path)]
        assert message is not None, f"{path.name} was loaded"
        assert message.startswith(f"{path}: ")
        assert len(message) < 1000
        assert seconds < 1, path.name
    assert growth * (1 if sys.platform == "darwin" else 1024) < 200e6
    assert not canary.exists()
    # The canary would have sung.
    pickle.loads((canary.parent / "pickle").read_bytes())
    assert canary.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    {
        "whole but for a NaN": "NaN is no number",
        "whole but for a padded header": "at most 4,194,304 are read",
        "one array more": "it has the arrays",
        "superfluous parameter": "it has the parameters",
        "newer format": "upgrade lrrspm",
        "pickle": "it was not opened",
        "giant pyramid": "levels",
        "half precision": "holds F16",
        "negative count": "no whole numbers",
        "no library": "which lrrspm wrote it",
    }.items(),
)
def test_the_reason_is_the_right_one(hostile, name, reason):
    (path,) = (made for made in hostile[0] if made.name == name)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert reason in str(caught.value)


def test_a_model_cannot_speak_to_the_terminal(model_path, tmp_path):
    path = rewrite(model_path, tmp_path / "m", lambda d, a: d.update(library="0.1\x1b]0;x\x07"))
    result = CliRunner().invoke(app, ["info", str(path)])
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert r"0.1\x1b]0;x\x07" in result.output


def test_a_header_that_nobody_could_read_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="at most 4,194,304; use fewer classes"):
        write_model(tmp_path / "m", {"classes": ["a" * 5_000_000]}, {})
    assert not (tmp_path / "m").exists()


def test_the_rewritten_model_is_good_without_a_change(model_path, tmp_path):
    load_model(rewrite(model_path, tmp_path / "m", lambda d, a: None))


def test_a_model_that_is_not_read_to_its_end(model_path, tmp_path):
    """Every length that a model file can be cut to."""
    content = model_path.read_bytes()
    for length in range(0, len(content), 503):
        (tmp_path / "m").write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load_model(tmp_path / "m")
