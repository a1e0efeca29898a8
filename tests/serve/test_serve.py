"""The API and the page: what the server answers."""

import base64
import errno
import io
import json
import re
import tempfile

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner

from lrrspm import config, load_model
from lrrspm.cli import app as commands
from lrrspm.report import draw as drawing
from lrrspm.serve import connection, gate, run
from lrrspm.serve.app import create_app
from lrrspm.serve.limits import Limits
from lrrspm.serve.work import Worker
from tests.conftest import HERE
from tests.serve.servers import limited, saved, send

STATIC = HERE.parent / "src" / "lrrspm" / "serve" / "static"


def scores_of(model_path, content):
    scores = load_model(model_path).examine(io.BytesIO(content)).scores
    return dict(zip(["across", "along", "dots"], scores, strict=True))


def test_predictions_are_those_of_the_library(client, model_path, picture):
    answer = send(client, "/api/predict?top=2", ("a.png", picture), ("b.png", picture))
    assert answer.status_code == 200
    first, second = answer.json()["predictions"]
    assert [first["name"], second["name"]] == ["a.png", "b.png"]
    expected = scores_of(model_path, picture)
    best = sorted(expected, key=expected.get, reverse=True)[:2]
    assert first["label"] == best[0] == "dots"
    assert first["score"] == expected["dots"]
    assert first["top"] == [{"label": name, "score": expected[name]} for name in best]
    assert first["milliseconds"] > 0


def test_a_broken_file_among_good_ones(client, picture):
    answer = send(
        client, "/api/predict", ("good.png", picture), ("bad.jpg", b"junk"), ("empty.png", b"")
    )
    assert answer.status_code == 200
    good, bad, empty = answer.json()["predictions"]
    assert good["label"] == "dots"
    assert bad == {
        "name": "bad.jpg",
        "error": "not an image of a known format (JPEG, PNG, WebP, BMP, TIFF, GIF, PGM/PPM)",
    }
    assert empty == {"name": "empty.png", "error": "the file is empty"}


def test_nothing_but_broken_files(client):
    answer = send(client, "/api/predict", ("bad.jpg", b"junk"), ("empty.png", b""))
    assert answer.status_code == 422
    assert re.fullmatch(
        r"bad\.jpg: not an image .*; empty\.png: the file is empty", answer.json()["error"]
    )


@pytest.mark.parametrize("label", [None, "across"])
def test_explanations_are_those_of_the_library(client, model_path, picture, label):
    wanted = {"patches": "true"} if label is None else {"patches": "true", "label": label}
    answer = send(client, "/api/explain", ("a.png", picture), params=wanted)
    assert answer.status_code == 200
    found = answer.json()
    expected = load_model(model_path).explain(io.BytesIO(picture), label)
    assert (found["label"], found["score"]) == (expected.label, expected.score)
    assert found["intercept"] == expected.intercept
    assert found["patches"] == {
        name: getattr(expected, name).tolist() for name in ("contributions", "x", "y")
    }
    scores = scores_of(model_path, picture)
    assert found["classes"] == [
        {"label": name, "score": scores[name]} for name in sorted(scores, key=lambda n: -scores[n])
    ]
    assert (found["width"], found["height"], found["preview"]) == (48, 48, None)
    drawn = np.asarray(decoded(found["map"], "image/png"))
    np.testing.assert_array_equal(drawn, drawing.evidence_colors(expected.map))


def decoded(uri, kind):
    start, content = uri.split(",")
    assert start == f"data:{kind};base64"
    return Image.open(io.BytesIO(base64.b64decode(content)))


def test_maps_of_large_pictures_are_small(client):
    pixels = np.random.default_rng(0).integers(0, 256, (1000, 4000), np.uint8)
    found = send(client, "/api/explain?preview=1", ("large.jpg", saved(pixels, "JPEG"))).json()
    assert (found["width"], found["height"]) == (4000, 1000)
    assert decoded(found["map"], "image/png").size == (300, 75)
    assert decoded(found["preview"], "image/jpeg").size == (1200, 300)


def test_turned_pictures_have_upright_maps(client):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 90), np.uint8)
    exif = Image.Exif()
    exif[274] = 6
    found = send(client, "/api/explain?preview=1", saved(pixels, "TIFF", exif=exif)).json()
    assert (found["width"], found["height"]) == (40, 90)
    for shown in ("map", "preview"):
        kind = "image/png" if shown == "map" else "image/jpeg"
        assert decoded(found[shown], kind).size == (40, 90)


def test_decoders_have_no_descriptor_of_an_upload(client, monkeypatch):
    """Pillow would go on using it after the time limit, when it may be another client's file."""
    pixels = np.random.default_rng(0).integers(0, 256, (1200, 1200), np.uint8)
    content = saved(pixels, "TIFF", compression="tiff_lzw")
    assert len(content) > 2**20  # on disk
    found = send(client, "/api/predict", saved(pixels)).json()["predictions"][0]

    def moved(*_):
        raise AssertionError("a file is moved about in by its descriptor")

    monkeypatch.setattr("os.lseek", moved)
    answer = send(client, "/api/predict", content)
    assert answer.status_code == 200
    assert answer.json()["predictions"][0]["top"] == found["top"]


def test_the_card(client, model_path):
    card = client.get("/api/model").json()
    assert card["model"] == "small.lrrspm"
    assert card["bytes"] == model_path.stat().st_size
    assert card["classes"] == {"across": 12, "along": 12, "dots": 12}
    assert (card["images"], card["held_out"], card["method"]) == (36, None, "LrrSPM")
    assert card["parameters"]["codebook_size"] == 16
    assert card["limits"]["file_bytes"] == Limits().file_bytes
    told = json.loads(CliRunner().invoke(commands, ["info", str(model_path), "--json"]).stdout)
    assert card["parameters"] == told["parameters"]


def test_the_card_of_a_model_with_an_estimate(pictures, tmp_path):
    path = tmp_path / "m"
    quick = ["--codebook-size", "8", "--step", "12", "--jobs", "1"]
    result = CliRunner().invoke(commands, ["train", str(pictures), "-o", str(path), *quick])
    assert result.exit_code == 0
    held_out = Worker(path).card.held_out
    assert held_out is not None
    assert held_out.images == 6
    assert held_out.rough
    assert 0 <= held_out.accuracy <= 100


@pytest.mark.parametrize(
    ("address", "named", "status", "error"),
    [
        ("/api/explain?label=cat", {"files": {"file": b"x"}}, 422, "no class 'cat'; there are: ac"),
        ("/api/explain", {"files": {"other": b"x"}}, 422, "file: Field required"),
        (
            "/api/explain",
            {"data": {"file": "a.png"}},
            422,
            "^file: not a file; with curl write -F file=@NAME$",
        ),
        (
            "/api/predict",
            {"data": {"files": ["a", "b"]}},
            422,
            "^files: not a file; with curl write -F files=@NAME$",
        ),
        ("/api/explain", {"json": {}}, 422, "file: Field required"),
        ("/api/explain", {"files": {"file": ("a.png", b"junk")}}, 422, "a.png: not an image"),
        ("/api/predict", {}, 422, "files: Field required"),
        ("/api/predict?top=0", {"files": {"files": b"x"}}, 422, "top: .*greater than or equal"),
        ("/api/predict?top=x", {"files": {"files": b"x"}}, 422, "top: .*valid integer"),
        ("/nowhere", {}, 404, "nothing at this address"),
        ("/static/../app.py", {}, 404, "nothing at this address"),
        ("/", {}, 405, "not with this method; /docs lists"),
    ],
)
def test_bad_requests(client, address, named, status, error):
    answer = client.post(address, **named)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert re.search(error, answer.json()["error"])


UNREADABLE = "the form cannot be read; send multipart/form-data with each picture as a file"


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        ("multipart/form-data", b"junk", UNREADABLE),
        ("multipart/form-data; boundary=x", b"junk", UNREADABLE),
        ("multipart/form-data; boundary=x", b"--x\r\nno header", UNREADABLE),
        (
            "multipart/form-data; boundary=x",
            b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--",
            UNREADABLE,
        ),
        (
            "multipart/form-data; boundary=x; charset=unicode_escape",
            b"--x--",
            "file: Field required",
        ),
    ],
)
def test_damaged_forms(client, kind, body, error):
    answer = client.post("/api/explain", content=body, headers={"Content-Type": kind})
    assert answer.status_code == (400 if error is UNREADABLE else 422)
    assert answer.json() == {"error": error}


def test_no_room_for_uploads(client, picture, monkeypatch, capsys):
    def rollover(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gate, "_complaints", {})
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rollover)
    for _ in range(2):
        answer = send(client, "/api/predict", picture + bytes(2**20))
        assert answer.status_code == 507
        assert answer.json() == {"error": "there is no room for uploads on the server"}
    assert capsys.readouterr().err == (
        "error: no room for uploads: [Errno 28] No space left on device; "
        "set TMPDIR to a folder that has some\n"
    )
    assert send(client, "/api/predict", picture).status_code == 200


@pytest.mark.parametrize("address", ["/", "/docs", "/api/model", "/openapi.json", "/static/app.js"])
def test_heads_are_those_of_the_answers(client, address):
    head, answer = client.head(address), client.get(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == answer.headers
    assert int(head.headers["content-length"]) == len(answer.content)


def test_names_that_are_no_text(client, picture):
    def form(name):
        head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="' + name
        return head + b'"\r\n\r\n' + picture + b"\r\n--x--\r\n"

    kind = "multipart/form-data; boundary=x; charset=raw_unicode_escape"
    answer = client.post(
        "/api/predict", content=form(rb"a\ud800.png"), headers={"Content-Type": kind}
    )
    assert answer.status_code == 200
    assert answer.json()["predictions"][0]["name"] == "a\\ud800.png"


def test_classes_that_are_no_text(pictures, tmp_path, picture):
    from lrrspm import ImageClassifier, LRREncoder, find_images

    paths, labels = find_images(pictures)
    odd = [{"dots": "d\udcff", "across": "<b>", "along": "🦊"}[label] for label in labels]
    path = tmp_path / "odd.lrrspm"
    ImageClassifier(LRREncoder(codebook_size=8), random_state=0).fit(paths, odd).save(path)
    with TestClient(create_app(Worker(path)), base_url="http://localhost") as client:
        assert set(client.get("/api/model").json()["classes"]) == {"d\\udcff", "<b>", "🦊"}
        found = send(client, "/api/explain", picture, params={"label": "d\\udcff"}).json()
        assert found["label"] == "d\\udcff"


def test_numbers_as_classes(pictures, tmp_path, picture):
    from lrrspm import ImageClassifier, LRREncoder, find_images

    paths, labels = find_images(pictures)
    path = tmp_path / "two.lrrspm"
    numbers = [7 if label == "dots" else 3 for label in labels]
    ImageClassifier(LRREncoder(codebook_size=8), random_state=0).fit(paths, numbers).save(path)
    with TestClient(create_app(Worker(path)), base_url="http://localhost") as client:
        both = send(client, "/api/explain?label=3", picture).json()
        assert [one["label"] for one in both["classes"]] == ["7", "3"]
        assert both["score"] == both["classes"][1]["score"] == -both["classes"][0]["score"]


def test_marks_of_direction_are_written_out(client):
    answer = send(client, "/api/explain", ("\u202egnp.svg", b"junk"))
    assert answer.json()["error"].startswith("\\u202egnp.svg: not an image")


@limited(files=2, file_bytes=10_000)
def test_limits_on_files(own_client, picture):
    assert len(picture) < 10_000
    answer = send(own_client, "/api/predict", picture, picture, picture)
    assert answer.status_code == 422
    assert answer.json()["error"] == "more than 2 pictures; send fewer"
    large = ("large", picture + bytes(10_001 - len(picture)))
    answer = send(own_client, "/api/predict", ("good", picture), large)
    assert answer.status_code == 200
    reason = "more than 10,000 bytes; shrink it first"
    assert answer.json()["predictions"][1] == {"name": "large", "error": reason}
    answer = send(own_client, "/api/explain", large)
    assert answer.status_code == 413
    assert answer.json() == {"error": f"large: {reason}"}


def test_pictures_of_too_many_pixels(client):
    file = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(file, "PNG")
    answer = send(client, "/api/explain", ("bomb.png", file.getvalue()))
    assert answer.status_code == 422
    assert re.fullmatch(r"bomb\.png: .*89,478,485.*; shrink it first", answer.json()["error"])


def test_pages_name_no_other_host(client):
    files = sorted(path for path in STATIC.iterdir())
    assert len(files) >= 8
    for path in files:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z0-9-]+\.", text), path.name
        answer = client.get(f"/static/{path.name}")
        assert (answer.status_code, answer.text) == (200, path.read_text())
    for page in ("/", "/docs"):
        text = client.get(page).text
        assert not re.search(r"<style|style=|<script(?! type=\"module\" src=)|\son\w+=", text)


def test_the_page_has_the_colours_of_the_map():
    style = (STATIC / "style.css").read_text()
    assert f"--for: {drawing.FOR};" in style
    assert f"--against: {drawing.AGAINST};" in style


def test_the_document_has_the_limits():
    text = (HERE.parent / "docs" / "serving.md").read_text()
    told = dict(re.findall(r"\| `--max-([a-z-]+)` \| (\d+) \|", text))
    assert {name: int(value) for name, value in told.items()} == {
        "files": config.SERVE_FILES,
        "file-mb": config.SERVE_FILE_MB,
        "request-mb": config.SERVE_REQUEST_MB,
        "waiting": config.SERVE_WAITING,
        "seconds": config.SERVE_SECONDS,
    }


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (r"headers of a request have (\d+) seconds", connection._PATIENCE),
        (r"after (\d+) seconds comes in with less", gate._GRACE),
        (r"less than (\d+) kB a second", gate._SLOWEST / 1000),
        (r"cut off after (\d+) seconds", run._UNREAD),
        (r"asks the system for (\d+) files", connection._FILES),
        (r"Uploads of (\d+) requests are read at a time", gate._AT_ONCE),
        (r"Requests have (\d+) seconds to be done", run._FAREWELL),
        (r"ends without it (\d+) seconds after the signal", run._LAST),
    ],
)
def test_the_document_has_what_is_fixed(words, value):
    text = " ".join((HERE.parent / "docs" / "serving.md").read_text().split())
    assert [float(found) for found in re.findall(words, text)] == [value]


def test_limits_must_make_sense():
    with pytest.raises(ValueError, match="files must be over 0, got 0"):
        Limits(files=0)
