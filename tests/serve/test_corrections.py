"""Corrections: what a person says is saved in a folder that ``lrrspm add`` takes."""

import hashlib
import os
import unicodedata

import numpy as np
import pytest
from fastapi import HTTPException
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from lrrspm import find_images, read_image
from lrrspm.serve.app import create_app
from lrrspm.serve.corrections import LONGEST_NAME, Corrections, check_class
from lrrspm.serve.worker import Worker
from tests.conftest import draw
from tests.serve.servers import encoded

KNOWN = ["across", "along", "dots"]
PIXELS = draw("dots", np.random.default_rng(3))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "corrections"


@pytest.fixture
def collecting(worker, folder):
    """Client of a server that takes up to three corrections, of 20 kB together."""
    app = create_app(worker, corrections=Corrections(folder, 3, 20_000))
    with TestClient(app, "http://localhost", raise_server_exceptions=False) as client:
        yield client


def correct(client, content, label, name="../../evil.sh"):
    """Send a correction, under a name that would do harm."""
    return client.post("/api/corrections", files={"file": (name, content)}, params={"label": label})


def saved(folder):
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [("PNG", "png"), ("JPEG", "jpeg"), ("TIFF", "tiff"), ("PPM", "ppm"), ("BMP", "bmp")],
)
def test_an_image_is_saved_by_class_and_digest(collecting, folder, kind, suffix):
    content = encoded(PIXELS, kind)
    response = correct(collecting, content, "along")
    assert (response.status_code, response.json()) == (200, {"label": "along", "images": 1})
    name = f"along/{hashlib.sha256(content).hexdigest()}.{suffix}"
    assert saved(folder) == [name]
    assert (folder / name).read_bytes() == content
    paths, labels = find_images(folder)
    assert labels == ["along"]
    assert read_image(paths[0]).shape == PIXELS.shape


def test_the_last_correction_counts(collecting, folder):
    content = encoded(PIXELS)
    for label in ("along", "a new class", "across", "across"):
        assert correct(collecting, content, label).json() == {"label": label, "images": 1}
    (name,) = saved(folder)
    assert name.startswith("across/")


def test_what_is_no_image_is_not_saved(collecting, folder):
    whole = encoded(PIXELS)
    for content in (b"#!/bin/sh", b"", whole[: len(whole) // 2]):
        response = correct(collecting, content, "along")
        assert response.status_code == 422
        assert "error" in response.json()
    assert saved(folder) == []


def test_number_and_bytes_are_limited(collecting, folder):
    for i in range(3):
        content = encoded(draw("dots", np.random.default_rng(i)))
        assert correct(collecting, content, "along").status_code == 200
    last = saved(folder)
    assert correct(collecting, encoded(PIXELS), "along").status_code == 507
    assert saved(folder) == last
    # One that is there already may still move.
    assert correct(collecting, content, "dots").json() == {"label": "dots", "images": 3}
    for name in saved(folder):
        (folder / name).unlink()
    large = encoded(draw("dots", np.random.default_rng(0), 200))
    assert len(large) > 20_000
    assert correct(collecting, large, "along").status_code == 507
    assert saved(folder) == []


def test_a_folder_that_cannot_be_written(collecting, folder, capsys):
    (folder / "along").write_text("a file where a folder should be")
    response = correct(collecting, encoded(PIXELS), "along")
    assert response.status_code == 507
    assert response.json() == {"error": "The server cannot save corrections"}
    assert "cannot save corrections" in capsys.readouterr().err


@pytest.mark.parametrize(
    "label",
    [
        "", ".", "..", "../up", "/etc", "a/b", "a\\b", "C:", "nul", "COM1.png", ".hidden", " left",
        "right ", "dot.", "new\nline", "zero\0", "\u202egnp", "\udc80", "x" * (LONGEST_NAME + 1),
        "Along", "DOTS", "*", "a|b",
    ],
)  # fmt: skip
def test_names_that_are_refused(label):
    with pytest.raises(HTTPException) as raised:
        check_class(label, KNOWN)
    assert raised.value.status_code == 422


def test_a_bad_name_saves_nothing(collecting, folder):
    for label in ("../up", "a/b", ""):
        assert correct(collecting, encoded(PIXELS), label).status_code == 422
    assert collecting.post("/api/corrections", params={"label": "along"}).status_code == 422
    assert saved(folder) == []
    assert os.listdir(folder.parent) == ["corrections"]


@given(st.text())
def test_a_name_is_one_folder(label):
    try:
        name = check_class(label, KNOWN)
    except HTTPException:
        return
    assert os.path.basename(name) == name == unicodedata.normalize("NFC", label)
    assert name not in ("", os.curdir, os.pardir)
    assert len(name.encode()) <= 255


def test_a_class_of_the_model_keeps_its_form():
    apart = unicodedata.normalize("NFD", "café")
    assert check_class(apart, [apart, "x"]) == apart
    with pytest.raises(HTTPException):
        check_class("café", [apart, "x"])


def test_off_unless_asked_for(own_client):
    assert own_client.get("/api/model").json()["collects"] is False
    assert correct(own_client, encoded(PIXELS), "along").status_code == 404


def test_other_sites_cannot_correct(collecting, folder):
    response = collecting.post(
        "/api/corrections",
        files={"file": ("a.png", encoded(PIXELS))},
        params={"label": "along"},
        headers={"Origin": "http://other.example"},
    )
    assert response.status_code == 403
    assert saved(folder) == []


def test_processes_decode_corrections(model_path, folder):
    worker = Worker(model_path, n_jobs=1, collects=True)
    app = create_app(worker, corrections=Corrections(folder))
    with TestClient(app, "http://localhost") as client:
        assert client.get("/api/model").json()["collects"] is True
        assert correct(client, encoded(PIXELS), "new").status_code == 200
        assert correct(client, b"junk", "new").status_code == 422
    worker.workers.close()
    assert len(saved(folder)) == 1


def test_a_worker_is_not_believed(collecting, folder, worker, monkeypatch):
    async def lie(*_):
        return {"result": {"suffix": "/../../evil.sh"}}

    monkeypatch.setattr(worker.workers, "run", lie)
    assert correct(collecting, encoded(PIXELS), "along").status_code == 500
    assert saved(folder) == []
