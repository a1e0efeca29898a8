import json
import os
import pickle
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lrrspm import load_model
from lrrspm.modelfile.container import ModelFileError


def header(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["lrrspm"])


def rewrite(source, target, change):
    """A model file with another description or other arrays."""
    description, arrays = header(source), load_file(source)
    change(description, arrays)
    save_file(arrays, target, {"lrrspm": json.dumps(description)})
    return target


def test_what_is_inside(model_path):
    description = header(model_path)
    assert description["format"] == 1
    assert description["classes"] == ["across", "along", "dots"]
    assert description["summary"]["images"] == 36
    assert description["parameters"]["step"] == 6
    assert description["encoder"]["parameters"]["regularization"] == 0.7
    assert "n_jobs" not in description["parameters"]


def test_pickle_is_not_opened(tmp_path):
    canary = tmp_path / "canary"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(canary),)

    path = tmp_path / "m.lrrspm"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ModelFileError, match=r"looks like a pickle.*not opened"):
        load_model(path)
    assert not canary.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"hello, this is no model", "not an lrrspm model"),
        (b"PK\x03\x04" + bytes(50), "an archive"),
        (struct.pack("<Q", 2**60) + b"{" + bytes(50), "truncated or damaged"),
    ],
)
def test_other_files(tmp_path, content, message):
    path = tmp_path / "m.lrrspm"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(ModelFileError, match="no such model file"):
        load_model(tmp_path / "m.lrrspm")


def test_truncated(model_path, tmp_path):
    content = model_path.read_bytes()
    for length in (4, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "m.lrrspm").write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"truncated|damaged|not an lrrspm"):
            load_model(tmp_path / "m.lrrspm")


def test_newer_format(model_path, tmp_path):
    path = rewrite(model_path, tmp_path / "m", lambda d, _: d.update(format=2))
    with pytest.raises(ModelFileError, match=r"format 2 is newer.*upgrade lrrspm"):
        load_model(path)


def test_other_safetensors(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "m")
    with pytest.raises(ModelFileError, match="not an lrrspm model"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize(
    "change",
    [
        lambda d, a: a.pop("svm.coef"),
        lambda d, a: a.update({"svm.coef": a["svm.coef"].ravel()}),
        lambda d, a: a.update(codebook=a["codebook"].ravel()),
        lambda d, a: a["svm.coef"].__setitem__((0, 0), np.nan),
        lambda d, a: a.update({"svm.coef": a["svm.coef"].astype(np.int64)}),
        lambda d, a: d["parameters"].update(step="6"),
        lambda d, a: d["parameters"].update(step=-1),
        lambda d, a: d["parameters"].update(C=0),
        lambda d, a: d["parameters"].update(method="Evil"),
        lambda d, a: d["parameters"].update(method="KernelSPM"),
        lambda d, a: d["encoder"]["parameters"].update(regularization=-1),
        lambda d, a: d.update(format=0),
        lambda d, a: d.update(format=True),
        lambda d, a: d.update(summary=None),
        lambda d, a: a.update({"svm.coef": np.zeros((3, 7), np.float32)}),
        lambda d, a: a.update({"encoder.projection": a["encoder.projection"].T.copy()}),
        lambda d, a: d.pop("classes"),
        lambda d, a: d.update(classes=["one"]),
        lambda d, a: d["encoder"].update(type="Evil"),
        lambda d, a: d["encoder"]["parameters"].update(nonsense=1),
        lambda d, a: d.update(parameters=3),
        lambda d, a: d.update(classes=["a", "c", "b"]),
        lambda d, a: d.update(classes=["a", "b", 3]),
        lambda d, a: d.update(classes=[["a"], ["b"], ["c"]]),
    ],
)
def test_parts_that_do_not_fit(model_path, tmp_path, change):
    path = rewrite(model_path, tmp_path / "m", change)
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)
