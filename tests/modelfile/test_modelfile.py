import os
import pickle
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from lrrspm import load_model
from lrrspm.modelfile import ModelFileError
from tests.modelfile.models import (
    FORMAT_1,
    codebook,
    descriptor,
    encoder,
    header,
    name_encoder,
    name_method,
    projection,
    rewrite,
    svm,
)


def test_what_is_inside(model_path):
    description = header(model_path)
    assert description["format"] == 2
    assert description["method"] == "LrrSPM"
    assert description["classes"] == ["across", "along", "dots"]
    assert description["summary"]["images"] == 36
    assert description["requires"] == {}
    (channel,) = description["channels"]
    assert channel["descriptor"] == {"name": "SIFT", "parameters": {"step": 6, "patch_size": 16}}
    assert channel["encoder"]["name"] == "LRREncoder"
    assert channel["encoder"]["parameters"]["regularization"] == 0.7
    assert channel["pooling"] == {"name": "MaxPooling", "parameters": {"norm": "l2"}}
    assert (channel["levels"], channel["weight"]) == ([1, 2, 4], 1.0)
    assert description["svm"] == {"name": "LinearSVM", "parameters": {"C": 10.0}}
    assert not {"n_jobs", "cache"} & set(description)


def test_a_pickle_is_not_opened(tmp_path):
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


def test_truncated_files(model_path, tmp_path):
    content = model_path.read_bytes()
    for length in (4, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "m.lrrspm").write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"truncated|damaged|not an lrrspm"):
            load_model(tmp_path / "m.lrrspm")


def test_newer_format(model_path, tmp_path):
    path = rewrite(model_path, tmp_path / "m", lambda d, _: d.update(format=3))
    with pytest.raises(ModelFileError, match=r"format 3 is newer.*upgrade lrrspm"):
        load_model(path)


def test_other_safetensors(tmp_path):
    save_file({"a": np.zeros(3)}, tmp_path / "m")
    with pytest.raises(ModelFileError, match="not an lrrspm model"):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "change",
    [
        lambda d, a: a.pop("svm.coef"),
        lambda d, a: a.update({"svm.coef": a["svm.coef"].ravel()}),
        lambda d, a: a.update({codebook(d): a[codebook(d)].ravel()}),
        lambda d, a: a["svm.coef"].__setitem__((0, 0), np.nan),
        lambda d, a: a.update({"svm.coef": a["svm.coef"].astype(np.int64)}),
        lambda d, a: descriptor(d).update(step="6"),
        lambda d, a: descriptor(d).update(step=-1),
        lambda d, a: svm(d).update(C=0),
        lambda d, a: name_method(d, "KernelSPM"),
        lambda d, a: name_method(d, 3),
        lambda d, a: name_method(d, ["LrrSPM"]),
        lambda d, a: encoder(d)["parameters"].update(regularization=-1),
        lambda d, a: d.update(format=0),
        lambda d, a: d.update(format=True),
        lambda d, a: d.update(format=3 - d["format"]),
        lambda d, a: d.update(summary=None),
        lambda d, a: a.update({"svm.coef": np.zeros((3, 7), np.float32)}),
        lambda d, a: a.update({projection(d): a[projection(d)].T.copy()}),
        lambda d, a: d.pop("classes"),
        lambda d, a: d.update(classes=["one"]),
        lambda d, a: name_encoder(d, "Evil"),
        lambda d, a: encoder(d)["parameters"].update(nonsense=1),
        lambda d, a: d.update(parameters=3, channels=3),
        lambda d, a: d.update(classes=["a", "c", "b"]),
        lambda d, a: d.update(classes=["a", "b", 3]),
        lambda d, a: d.update(classes=[["a"], ["b"], ["c"]]),
    ],
)
def test_parts_that_do_not_fit(model_path, tmp_path, change, version):
    path = rewrite(FORMAT_1 if version == 1 else model_path, tmp_path / "m", change)
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)


def test_an_unknown_method_of_format_1(tmp_path):
    """Format 1 derives pooling and kernel from the method; format 2 names them."""
    path = rewrite(FORMAT_1, tmp_path / "m", lambda d, a: name_method(d, "Evil"))
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)


def test_a_method_that_is_not_installed_is_forgotten(model_path, tmp_path):
    path = rewrite(model_path, tmp_path / "m", lambda d, a: name_method(d, "Theirs"))
    model = load_model(path)
    assert model.method_name == "custom"
    image = np.random.default_rng(0).random((40, 40), np.float32)
    np.testing.assert_array_equal(
        model.decision_function([image]), load_model(model_path).decision_function([image])
    )
