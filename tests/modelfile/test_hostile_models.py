"""Model files made to do harm: all are refused, quickly, in little memory."""

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
from typer.testing import CliRunner

from lrrspm import Channel, ImageClassifier, LLCEncoder, LRREncoder, load_model
from lrrspm.cli import app
from lrrspm.modelfile.container import MAX_HEADER, ModelFileError, write_model
from tests.conftest import draw, run_alone
from tests.modelfile.hostile import CHANGES, CHANNELS
from tests.modelfile.models import FORMAT_1, header, rewrite

LOAD_ALL = """
import json, resource, sys, time
from lrrspm import load_model
from lrrspm.modelfile.container import ModelFileError

good, *paths = json.load(sys.stdin)
load_model(good)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = {}
for path in paths:
    start = time.process_time()
    try:
        load_model(path)
        message = None
    except ModelFileError as error:
        message = str(error)
    found[path] = (message, time.process_time() - start)
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
    """Return a safetensors file with any header, true or not."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def containers(good, canary):
    """Return files of another kind, or whose outer layer lies."""
    evil = Evil(canary)
    packed, archive = io.BytesIO(), io.BytesIO()
    joblib.dump(evil, packed)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model/data.pkl", pickle.dumps(evil))
    objects = io.BytesIO()
    np.save(objects, np.array([evil], dtype=object), allow_pickle=True)
    description = header(good)
    book = "codebook" if description["format"] == 1 else "channels.0.codebook"
    meta = {"__metadata__": {"lrrspm": json.dumps(description)}}
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
        "header that is not text": raw(b"\xff\xfe{}"),
        "header that is a list": raw(b"[]"),
        "truncated": content[: len(content) // 2],
        "one byte more": content + b"\0",
        "overlapping tensors": raw(
            {**meta, book: tensor([2, 128], 0, 1024), "svm.coef": tensor([2], 4, 12)},
            bytes(1024),
        ),
        "tensor beyond the file": raw({**meta, book: tensor([2**30, 128], 0, 2**39)}),
        "overflowing shape": raw({**meta, book: tensor([2**62, 4, 2**62], 0, 16)}, bytes(16)),
        "negative shape": raw({**meta, book: tensor([-2, -128], 0, 1024)}, bytes(1024)),
        "offsets backwards": raw({**meta, book: tensor([1], 8, 4)}, bytes(8)),
        "hole between tensors": raw({**meta, book: tensor([1], 4, 8)}, bytes(8)),
        "unknown dtype": raw({**meta, book: tensor([1], 0, 4, "PICKLE")}, bytes(4)),
        "no metadata": content[:8] + b"{" + b" " * (size - 2) + b"}" + content[8 + size :],
        "metadata that is not text": raw({"__metadata__": {"lrrspm": {"a": 1}}}),
        **descriptions(content, size, json.dumps(description)),
    }


def descriptions(content, size, text):
    """Return files whose description cannot be parsed, some of them good otherwise."""
    files = {
        name: raw({"__metadata__": {"lrrspm": description}})
        for name, description in {
            "description that is not JSON": "{",
            "deep description": "[" * 10**6,
            "description with NaN": text.replace("0.98", "NaN"),
            "description with a long number": text.replace("0.98", "9" * 10**5),
        }.items()
    }
    whole, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    nan = {"lrrspm": text.replace("0.98", "NaN", 1)}
    files["good but for a NaN"] = raw({**whole, "__metadata__": nan}, data)
    files["good but for a padded header"] = raw(content[8 : 8 + size] + b" " * MAX_HEADER, data)
    return files


def make_special_files(folder, good):
    """Make what is not a plain file, or is larger than the disk space it takes."""
    size = 2**33
    meta = {"__metadata__": {"lrrspm": json.dumps(header(good))}}
    content = raw({**meta, "channels.0.codebook": tensor([2**24, 128], 0, size)})
    with (folder / "sparse file").open("wb") as file:
        file.write(content)
        file.truncate(len(content) + size)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "link to a device").symlink_to("/dev/zero")
    (folder / "link to itself").symlink_to("link to itself")


@pytest.fixture(scope="module")
def two_channels(tmp_path_factory):
    """A small model of two channels with codebooks of different sizes."""
    rng = np.random.default_rng(0)
    images = [draw(kind, rng) for kind in ("across", "along", "dots") for _ in range(3)]
    channels = [
        Channel(LRREncoder(codebook_size=4), levels=(1,)),
        Channel(LLCEncoder(codebook_size=5), levels=(1, 2), weight=2.0),
    ]
    path = tmp_path_factory.mktemp("model") / "two.lrrspm"
    model = ImageClassifier(channels=channels, n_samples=500, random_state=0)
    model.fit(images, np.repeat(["a", "b", "c"], 3)).save(path)
    return path


@pytest.fixture(scope="module")
def hostile(model_path, two_channels, tmp_path_factory):
    """The files by name, and the folder that appears if one of them is obeyed."""
    root = tmp_path_factory.mktemp("hostile")
    canary = root / "canary"
    for source, name, changes in (
        (FORMAT_1, "format 1", CHANGES),
        (model_path, "format 2", CHANGES),
        (two_channels, "two channels", CHANNELS),
    ):
        folder = root / name
        folder.mkdir()
        for target, change in changes.items():
            rewrite(source, folder / target, change)
        for target, content in containers(source, canary).items() if changes is CHANGES else ():
            (folder / target).write_bytes(content)
    make_special_files(root / "format 2", model_path)
    made = [path for folder in sorted(root.iterdir()) for path in sorted(folder.iterdir())]
    return {str(path.relative_to(root)): path for path in made}, canary


def test_all_are_refused(hostile, model_path):
    made, canary = hostile
    assert len(made) >= 150
    done = run_alone(LOAD_ALL, json.dumps([str(path) for path in (model_path, *made.values())]))
    assert done.returncode == 0, done.stderr
    found, growth = json.loads(done.stdout)
    for name, path in made.items():
        message, cpu_seconds = found[str(path)]
        assert message is not None, f"{name} was loaded"
        assert message.startswith(f"{path}: ")
        assert len(message) < 1000
        assert cpu_seconds < 1, name
    assert growth * (1 if sys.platform == "darwin" else 1024) < 200e6
    assert not canary.exists()
    # The canary would have sung.
    pickle.loads(made["format 2/pickle"].read_bytes())
    assert canary.exists()


BOTH = {
    "good but for a NaN": "NaN is not a number",
    "good but for a padded header": "at most 4,194,304 are read",
    "one array more": "it has the arrays",
    "superfluous parameter": "it has the parameters",
    "newer format": "upgrade lrrspm",
    "pickle": "it was not opened",
    "giant pyramid": "levels",
    "half precision": "holds F16",
    "negative count": "not whole numbers",
    "no library": "no library version",
}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((f"format {version}/{name}", BOTH[name]) for version in (1, 2) for name in BOTH),
        ("two channels/descriptor of another package", "needs the package 'their-package'"),
        ("two channels/encoder of another package", "needs the package 'their-package'"),
        ("two channels/pooling of another package", "needs the package 'their-package'"),
        ("two channels/unknown descriptor", "unknown descriptor 'Evil'"),
        ("two channels/unknown encoder", "unknown encoder 'Evil'"),
        ("two channels/unknown pooling", "unknown pooling 'Evil'"),
        ("two channels/no channels", "channels must be a list of 1 to 64"),
        ("two channels/65 channels", "channels must be a list of 1 to 64"),
        ("two channels/channels that are not a list", "channels must be a list of 1 to 64"),
        ("two channels/a thousand levels", "levels must be a list of 1 to 64"),
        ("two channels/weight of 0", "weight must be positive"),
        ("two channels/negative weight", "weight must be positive"),
        ("two channels/weight that is true", "the weight is True"),
        ("two channels/weights whose sum overflows", "weights is too large"),
        ("two channels/one key more", "a channel has the keys"),
        ("two channels/a part with one key more", "a part has the keys"),
        ("two channels/channels in another order", "expected"),
        ("two channels/more levels than the SVM has columns for", "the SVM has 29 columns"),
        ("two channels/codebook of another number of atoms", "channels.0.projection has shape"),
    ],
)
def test_the_reason_is_the_right_one(hostile, name, reason):
    with pytest.raises(ModelFileError) as caught:
        load_model(hostile[0][name])
    assert reason in str(caught.value)


def test_a_model_cannot_control_the_terminal(model_path, tmp_path):
    path = rewrite(model_path, tmp_path / "m", lambda d, a: d.update(library="0.1\x1b]0;x\x07"))
    result = CliRunner().invoke(app, ["info", str(path)])
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert r"0.1\x1b]0;x\x07" in result.output


def test_a_header_too_long_to_be_read_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="more than 4,194,304; use fewer classes"):
        write_model(tmp_path / "m", {"classes": ["a" * 5_000_000]}, {})
    assert not (tmp_path / "m").exists()


def test_rewritten_models_are_good_without_a_change(model_path, two_channels, tmp_path):
    for source in (FORMAT_1, model_path, two_channels):
        load_model(rewrite(source, tmp_path / "m", lambda d, a: None))


@pytest.mark.parametrize("version", [1, 2])
def test_a_model_cut_at_any_length(model_path, tmp_path, version):
    content = (FORMAT_1 if version == 1 else model_path).read_bytes()
    for length in range(0, len(content), 503):
        (tmp_path / "m").write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load_model(tmp_path / "m")
