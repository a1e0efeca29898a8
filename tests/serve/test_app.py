"""The API and the page."""

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

from lrrspm import load_model
from lrrspm.cli import app as commands
from lrrspm.images import ImageError
from lrrspm.report import draw as drawing
from lrrspm.serve import errors
from lrrspm.serve.app import create_app
from lrrspm.serve.escaping import escape, escape_all
from lrrspm.serve.processes import Threads
from lrrspm.serve.schemas import Limits
from lrrspm.serve.worker import Worker
from tests.conftest import HERE
from tests.serve.servers import encoded, limited, send

STATIC = HERE.parent / "src" / "lrrspm" / "serve" / "static"


def reason_of(model_path, content):
    """Return why an image file cannot be used, in the library's words."""
    with pytest.raises(ImageError) as raised:
        load_model(model_path).examine(io.BytesIO(content))
    return raised.value.reason


def ranked(model_path, content):
    """Return the classes of an image file as the API has them, best first."""
    model = load_model(model_path)
    scores = model.examine(io.BytesIO(content)).scores
    (chances,) = model.probabilities(scores[None])
    found = zip(["across", "along", "dots"], scores, chances, strict=True)
    classes = [dict(zip(("label", "score", "probability"), one, strict=True)) for one in found]
    return sorted(classes, key=lambda one: -one["score"])


def test_predictions_are_those_of_the_library(client, model_path, image):
    response = send(client, "/api/predict?top=2", ("a.png", image), ("b.png", image))
    assert response.status_code == 200
    first, second = response.json()["predictions"]
    assert [first["name"], second["name"]] == ["a.png", "b.png"]
    best = ranked(model_path, image)[:2]
    assert first["label"] == best[0]["label"] == "dots"
    assert (first["score"], first["confidence"]) == (best[0]["score"], best[0]["probability"])
    assert first["known"]
    assert first["top"] == best
    assert first["milliseconds"] > 0


def test_broken_file_among_good_ones(client, model_path, image):
    response = send(
        client, "/api/predict", ("good.png", image), ("bad.jpg", b"junk"), ("empty.png", b"")
    )
    assert response.status_code == 200
    good, bad, empty = response.json()["predictions"]
    assert good["label"] == "dots"
    assert bad == {"name": "bad.jpg", "error": reason_of(model_path, b"junk")}
    assert empty == {"name": "empty.png", "error": reason_of(model_path, b"")}


def test_only_broken_files(client, model_path):
    response = send(client, "/api/predict", ("bad.jpg", b"junk"), ("empty.png", b""))
    assert response.status_code == 422
    bad, empty = (reason_of(model_path, content) for content in (b"junk", b""))
    assert response.json() == {"error": f"bad.jpg: {bad}; empty.png: {empty}"}


@pytest.mark.parametrize("label", [None, "across"])
def test_explanations_are_those_of_the_library(client, model_path, image, label):
    wanted = {"patches": "true"} if label is None else {"patches": "true", "label": label}
    response = send(client, "/api/explain", ("a.png", image), params=wanted)
    assert response.status_code == 200
    found = response.json()
    expected = load_model(model_path).explain(io.BytesIO(image), label)
    assert (found["label"], found["score"]) == (expected.label, expected.score)
    assert found["intercept"] == expected.intercept
    assert found["patches"] == {
        name: getattr(expected, name).tolist() for name in ("contributions", "x", "y")
    }
    assert found["classes"] == ranked(model_path, image)
    assert sum(one["probability"] for one in found["classes"]) == pytest.approx(1)
    chances = {one["label"]: one["probability"] for one in found["classes"]}
    assert found["probability"] == chances[expected.label]
    assert (found["width"], found["height"], found["preview"]) == (48, 48, None)
    shown = np.asarray(decoded(found["map"], "image/png"))
    np.testing.assert_array_equal(shown, drawing.evidence_colors(expected.map))


def decoded(uri, kind):
    start, content = uri.split(",")
    assert start == f"data:{kind};base64"
    return Image.open(io.BytesIO(base64.b64decode(content)))


def test_maps_of_large_images_are_small(client):
    pixels = np.random.default_rng(0).integers(0, 256, (1000, 4000), np.uint8)
    found = send(client, "/api/explain?preview=1", ("large.jpg", encoded(pixels, "JPEG"))).json()
    assert (found["width"], found["height"]) == (4000, 1000)
    assert decoded(found["map"], "image/png").size == (300, 75)
    assert decoded(found["preview"], "image/jpeg").size == (1200, 300)


def test_maps_of_rotated_images_are_upright(client):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 90), np.uint8)
    exif = Image.Exif()
    exif[274] = 6
    found = send(client, "/api/explain?preview=1", encoded(pixels, "TIFF", exif=exif)).json()
    assert (found["width"], found["height"]) == (40, 90)
    for shown in ("map", "preview"):
        kind = "image/png" if shown == "map" else "image/jpeg"
        assert decoded(found[shown], kind).size == (40, 90)


def test_decoders_have_no_descriptor_of_an_upload(own_client, monkeypatch):
    """Pillow would go on using it after the time limit, when it may be another client's file."""
    pixels = np.random.default_rng(0).integers(0, 256, (1200, 1200), np.uint8)
    content = encoded(pixels, "TIFF", compression="tiff_lzw")
    assert len(content) > 2**20  # on disk
    found = send(own_client, "/api/predict", encoded(pixels)).json()["predictions"][0]

    def moved(*_):
        raise AssertionError("a file is moved about in by its descriptor")

    monkeypatch.setattr("os.lseek", moved)
    response = send(own_client, "/api/predict", content)
    assert response.status_code == 200
    assert response.json()["predictions"][0]["top"] == found["top"]


def test_the_card(client, model_path):
    card = client.get("/api/model").json()
    assert card["model"] == "small.lrrspm"
    assert card["bytes"] == model_path.stat().st_size
    assert card["classes"] == {"across": 12, "along": 12, "dots": 12}
    assert (card["images"], card["estimate"], card["method"]) == (36, None, "LrrSPM")
    assert card["parameters"]["channels"][0]["encoder"]["codebook_size"] == 16
    assert card["limits"]["file_bytes"] == Limits().file_bytes
    info = json.loads(CliRunner().invoke(commands, ["info", str(model_path), "--json"]).stdout)
    assert card["parameters"] == info["parameters"]


@pytest.mark.parametrize("share", [0.999, 1.0, 1.001])
def test_answers_below_the_least_confidence_are_unknown(model_path, image, share):
    best = ranked(model_path, image)[0]
    least = share * best["probability"]
    worker = Worker(model_path, min_confidence=least, isolated=False)
    with TestClient(create_app(worker), "http://localhost") as client:
        (found,) = send(client, "/api/predict", image).json()["predictions"]
        other = send(client, "/api/explain?label=along", image).json()
        assert client.get("/api/model").json()["min_confidence"] == least
    assert (found["label"], found["known"]) == (best["label"], share <= 1)
    assert (other["label"], other["known"]) == ("along", share <= 1)  # that of the best class


@pytest.mark.parametrize("least", [None, 0.0])
def test_unfamiliar_images_are_unknown_if_asked(model_path, image, least, monkeypatch):
    worker = Worker(model_path, min_confidence=least, isolated=False)
    with TestClient(create_app(worker), "http://localhost") as client:
        (usual,) = send(client, "/api/predict", image).json()["predictions"]
        assert isinstance(worker.workers, Threads)
        monkeypatch.setattr(worker.workers.model.classifier, "familiar_", 1e9)
        (odd,) = send(client, "/api/predict", image).json()["predictions"]
        explained = send(client, "/api/explain", image).json()
    assert (usual["familiar"], usual["known"]) == (True, True)
    for found in (odd, explained):
        assert (found["familiar"], found["known"]) == (False, least is None)
    assert odd["label"] == usual["label"]


def test_card_says_if_probabilities_are_calibrated(client, pictures, tmp_path):
    assert client.get("/api/model").json()["calibrated"]
    from lrrspm import ImageClassifier, LRREncoder

    paths = [pictures / kind / "00.png" for kind in ("dots", "along")]
    few = ImageClassifier(LRREncoder(codebook_size=4), random_state=0).fit(paths, ["dots", "along"])
    few.save(tmp_path / "few")
    assert not Worker(tmp_path / "few", isolated=False).card.calibrated


def test_card_of_a_model_with_an_estimate(pictures, tmp_path):
    path = tmp_path / "m"
    quick = ["--method", "LrrSPM", "--codebook-size", "8", "--step", "12", "--jobs", "1"]
    result = CliRunner().invoke(commands, ["train", str(pictures), "-o", str(path), *quick])
    assert result.exit_code == 0
    estimate = Worker(path, isolated=False).card.estimate
    assert estimate is not None
    assert estimate.images == 36
    assert not estimate.rough
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low <= estimate.accuracy <= estimate.high <= 100


@pytest.mark.parametrize(
    ("address", "named", "status", "error"),
    [
        (
            "/api/explain?label=cat",
            {"files": {"file": b"x"}},
            422,
            "No class 'cat'; the classes are: ac",
        ),
        ("/api/explain", {"files": {"other": b"x"}}, 422, "file: Field required"),
        (
            "/api/explain",
            {"data": {"file": "a.png"}},
            422,
            "^file: not a file; with curl use -F file=@NAME$",
        ),
        (
            "/api/predict",
            {"data": {"files": ["a", "b"]}},
            422,
            "^files: not a file; with curl use -F files=@NAME$",
        ),
        ("/api/explain", {"json": {}}, 422, "file: Field required"),
        ("/api/explain", {"files": {"file": ("a.png", b"junk")}}, 422, "^a.png: not an? "),
        ("/api/predict", {}, 422, "files: Field required"),
        ("/api/predict?top=0", {"files": {"files": b"x"}}, 422, "top: .*greater than or equal"),
        ("/api/predict?top=x", {"files": {"files": b"x"}}, 422, "top: .*valid integer"),
        ("/nowhere", {}, 404, "Not found; /docs lists"),
        ("/static/../app.py", {}, 404, "Not found; /docs lists"),
        ("/", {}, 405, "Method not allowed; /docs lists"),
    ],
)
def test_bad_requests(client, address, named, status, error):
    response = client.post(address, **named)
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert re.search(error, response.json()["error"])


MALFORMED = "Malformed form; send multipart/form-data with each image as a file"


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        ("multipart/form-data", b"junk", MALFORMED),
        ("multipart/form-data; boundary=x", b"junk", MALFORMED),
        ("multipart/form-data; boundary=x", b"--x\r\nno header", MALFORMED),
        (
            "multipart/form-data; boundary=x",
            b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--",
            MALFORMED,
        ),
        ("multipart/form-data; boundary=x; charset=US-ASCII", b"--x--", "file: Field required"),
    ],
)
def test_malformed_forms(client, kind, body, error):
    response = client.post("/api/explain", content=body, headers={"Content-Type": kind})
    assert response.status_code == (400 if error is MALFORMED else 422)
    assert response.json() == {"error": error}


def test_no_disk_space_for_uploads(client, image, monkeypatch, capsys):
    def rollover(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(errors, "_printed", {})
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rollover)
    for _ in range(2):
        response = send(client, "/api/predict", image + bytes(2**20))
        assert response.status_code == 507
        assert response.json() == {"error": "The server has no disk space for uploads"}
    assert capsys.readouterr().err == (
        "error: no space for uploads: [Errno 28] No space left on device; "
        "set TMPDIR to another folder\n"
    )
    assert send(client, "/api/predict", image).status_code == 200


@pytest.mark.parametrize("address", ["/", "/docs", "/api/model", "/openapi.json", "/static/app.js"])
def test_head_has_the_headers_of_get(client, address):
    head, response = client.head(address), client.get(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == response.headers
    assert int(head.headers["content-length"]) == len(response.content)


@pytest.mark.parametrize(
    "charset", ["punycode", '"punycode"', "Punycode", "utf-7", "utf-16", "idna", "unicode_escape"]
)
def test_other_charsets_are_refused_before_the_form_is_read(client, charset):
    """Decoding a long field as punycode takes seconds, in which nothing else is done."""
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + 10_000 * b"b" + b"\r\n--x--"
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    response = client.post("/api/predict", content=body, headers={"Content-Type": kind})
    assert response.status_code == 415
    name = charset.strip('"').lower()
    assert response.json() == {"error": f"Charset {name!r} is not supported; use UTF-8"}


def test_file_names_that_are_not_text(client, image):
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a\xff.png"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x; charset=utf-8"}
    body = head + image + b"\r\n--x--\r\n"
    response = client.post("/api/predict", content=body, headers=kind)
    assert response.status_code == 200
    assert response.json()["predictions"][0]["name"] == "a\xff.png"


@pytest.mark.parametrize(("text", "escaped"), [("a\ud800", "a\\ud800"), ("\u202eg", "\\u202eg")])
def test_escapes(text, escaped):
    assert escape(text) == escaped
    assert escape_all([text, escaped, f"{escaped} (2)"]) == [
        escaped, f"{escaped} (2)", f"{escaped} (2) (2)"
    ]  # fmt: skip


def test_class_names_that_print_alike(pictures, tmp_path, image):
    from lrrspm import ImageClassifier, LRREncoder, find_images

    paths, labels = find_images(pictures)
    alike = [{"dots": "d\udcff", "across": "d\\udcff", "along": "e"}[label] for label in labels]
    path = tmp_path / "alike.lrrspm"
    ImageClassifier(LRREncoder(codebook_size=8), random_state=0).fit(paths, alike).save(path)
    with TestClient(create_app(Worker(path, isolated=False)), "http://localhost") as client:
        names = list(client.get("/api/model").json()["classes"])
        assert sorted(names) == ["d\\udcff", "d\\udcff (2)", "e"]
        found = [send(client, "/api/explain", image, params={"label": n}).json() for n in names]
    assert [one["label"] for one in found] == names
    assert len({one["score"] for one in found}) == 3
    for one in found:
        assert {n: one[n] for n in ("label", "score", "probability")} in one["classes"]


def test_class_names_that_are_not_text(pictures, tmp_path, image):
    from lrrspm import ImageClassifier, LRREncoder, find_images

    paths, labels = find_images(pictures)
    odd = [{"dots": "d\udcff", "across": "<b>", "along": "🦊"}[label] for label in labels]
    path = tmp_path / "odd.lrrspm"
    ImageClassifier(LRREncoder(codebook_size=8), random_state=0).fit(paths, odd).save(path)
    with TestClient(
        create_app(Worker(path, isolated=False)), base_url="http://localhost"
    ) as client:
        assert set(client.get("/api/model").json()["classes"]) == {"d\\udcff", "<b>", "🦊"}
        found = send(client, "/api/explain", image, params={"label": "d\\udcff"}).json()
        assert found["label"] == "d\\udcff"


def test_numbers_as_class_names(pictures, tmp_path, image):
    from lrrspm import ImageClassifier, LRREncoder, find_images

    paths, labels = find_images(pictures)
    path = tmp_path / "two.lrrspm"
    numbers = [7 if label == "dots" else 3 for label in labels]
    ImageClassifier(LRREncoder(codebook_size=8), random_state=0).fit(paths, numbers).save(path)
    with TestClient(
        create_app(Worker(path, isolated=False)), base_url="http://localhost"
    ) as client:
        both = send(client, "/api/explain?label=3", image).json()
        assert [one["label"] for one in both["classes"]] == ["7", "3"]
        assert both["score"] == both["classes"][1]["score"] == -both["classes"][0]["score"]


def test_direction_marks_are_escaped(client):
    response = send(client, "/api/explain", ("\u202egnp.svg", b"junk"))
    assert response.json()["error"].startswith("\\u202egnp.svg: ")


@limited(files=2, file_bytes=10_000)
def test_limits_on_files(own_client, image):
    assert len(image) < 10_000
    response = send(own_client, "/api/predict", image, image, image)
    assert response.status_code == 422
    assert response.json()["error"] == "Too many files. Maximum number of files is 2."
    large = ("large", image + bytes(10_001 - len(image)))
    response = send(own_client, "/api/predict", ("good", image), large)
    assert response.status_code == 200
    reason = "file is larger than 0.01 MB; shrink it first"
    assert response.json()["predictions"][1] == {"name": "large", "error": reason}
    response = send(own_client, "/api/explain", large)
    assert response.status_code == 413
    assert response.json() == {"error": f"large: {reason}"}


def test_images_with_too_many_pixels(client):
    file = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(file, "PNG")
    response = send(client, "/api/explain", ("bomb.png", file.getvalue()))
    assert response.status_code == 422
    assert re.fullmatch(r"bomb\.png: .*89,478,485.*; shrink it first", response.json()["error"])


def test_pages_name_no_other_host(client):
    files = sorted(path for path in STATIC.iterdir())
    assert len(files) >= 8
    for path in files:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z0-9-]+\.", text), path.name
        response = client.get(f"/static/{path.name}")
        assert (response.status_code, response.text) == (200, path.read_text())
    for page in ("/", "/docs"):
        text = client.get(page).text
        assert not re.search(r"<style|style=|<script(?! type=\"module\" src=)|\son\w+=", text)


def test_page_has_the_colors_of_the_map():
    style = (STATIC / "style.css").read_text()
    assert f"--for: {drawing.FOR};" in style
    assert f"--against: {drawing.AGAINST};" in style


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match=r"files\n.*greater than 0"):
        Limits(files=0)
