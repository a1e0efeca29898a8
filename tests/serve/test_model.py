"""The loaded model of the server."""

import hashlib
import shutil

import fsspec
import pytest

from lrrspm import load_model
from lrrspm.serve import model


def test_digest_is_that_of_the_file(model_path, tmp_path, monkeypatch):
    path = tmp_path / "own.lrrspm"
    shutil.copyfile(model_path, path)
    assert model.Model(path).digest == hashlib.sha256(path.read_bytes()).hexdigest()

    def load_and_change(name):
        loaded = load_model(name)
        with path.open("ab") as file:
            file.write(b"\0")
        return loaded

    monkeypatch.setattr(model, "load_model", load_and_change)
    monkeypatch.setattr(model.Model, "_describe", lambda *_: {})
    with pytest.raises(ValueError, match="changed while it was loaded"):
        model.Model(path)


def test_a_model_at_an_address(model_path):
    files = fsspec.filesystem("memory")
    files.pipe("/models/own.lrrspm", model_path.read_bytes())
    found = model.Model("memory://models/own.lrrspm")
    assert found.digest == model.Model(model_path).digest
    assert found.card["model"] == "own.lrrspm"
    files.pipe("/models/own.lrrspm", b"no model")
    with pytest.raises(ValueError, match=r"^memory://models/own\.lrrspm: a text file"):
        model.Model("memory://models/own.lrrspm")
    files.rm("/models", recursive=True)
