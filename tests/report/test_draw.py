"""Drawings: colors, evidence over images, and the command that draws it."""

import io
import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lrrspm import ImageClassifier, load_model
from lrrspm._support.text import percent
from lrrspm.cli import app
from lrrspm.evidence import Ranked
from lrrspm.images import read_thumbnail
from lrrspm.report.draw import (
    AGAINST,
    FOR,
    draw_explanation,
    draw_predictions,
    evidence_colors,
    evidence_limit,
    lay_over,
)
from tests.conftest import draw


def explain(*arguments, code=0):
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_colors_of_evidence_by_hand():
    found = evidence_colors(np.array([[-2.0, -0.5, 0.0, 0.5, 1.0]], np.float32), limit=1)
    against, favour = (list(bytes.fromhex(c[1:])) for c in (AGAINST, FOR))
    assert found[0, :, :3].tolist()[:2] == [against, against]
    assert found[0, :, :3].tolist()[3:] == [favour, favour]
    full, half = round(255 * 0.85), round(255 * 0.85 / 2)
    assert found[0, :, 3].tolist() == [full, half, 0, half, full]


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e30])
def test_colors_at_any_scale(value):
    plain = np.zeros((3, 4), np.float32)
    plain[1, 2] = value
    assert evidence_colors(plain)[1, 2, 3] == (round(255 * 0.85) if value else 0)


def test_colors_differ_for_color_blind_people():
    """Without red or green receptors (Viénot's projections) both colors stay far apart."""
    protan = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
    deutan = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    pair = np.array([list(bytes.fromhex(c[1:])) for c in (FOR, AGAINST)]) / 255
    linear = pair**2.2
    for missing in (protan, deutan):
        seen = (linear @ missing.T).clip(0, 1) ** (1 / 2.2)
        assert np.abs(seen[0] - seen[1]).max() > 0.4


@pytest.fixture(scope="module")
def shown(model_path, image_folder):
    """Return an image, its explanation and its classes."""
    path = image_folder / "dots" / "00.png"
    model = load_model(model_path)
    return (
        np.asarray(read_thumbnail(path, 900)),
        model.explain(path),
        [Ranked("dots", 1.0, 0.97), Ranked("along", -0.5, 0.03)],
    )


def test_evidence_lies_over_a_pale_gray_image():
    black = Image.new("RGB", (2, 1))
    clear, strong = np.zeros((1, 2), np.float32), np.array([[1.0, -1.0]], np.float32)
    assert np.asarray(lay_over(black, clear, 1)).tolist() == [[[153] * 3] * 2]
    favour, against = np.asarray(lay_over(black, strong, 1))[0].astype(int)
    assert favour[2] > favour[0] + 60
    assert against[0] > against[2] + 60


@pytest.mark.parametrize("calibrated", [True, False])
def test_what_is_drawn(calibrated, shown, tmp_path, monkeypatch):
    image, explanation, _ = shown
    figures = []
    monkeypatch.setattr("lrrspm.report.draw._save", lambda figure, path: figures.append(figure))
    ranked = [
        Ranked("dots", 1.0, 0.7496), Ranked("along", -0.5, 0.25), Ranked("across", -2.0, 0.0004)
    ]  # fmt: skip
    draw_explanation(tmp_path / "out.png", image, explanation, ranked, calibrated)
    left, right = figures[0].subfigs
    plain, evidence = (axis.get_images()[0].get_array() for axis in left.axes)
    np.testing.assert_array_equal(plain, image)
    limit = evidence_limit(explanation.map)
    over = lay_over(Image.fromarray(image), explanation.map, limit)
    np.testing.assert_array_equal(evidence, np.asarray(over))
    assert (
        left.axes[1].get_title()
        == f"evidence for dots\n{sum(explanation.contributions):+.2f} in total"
    )
    chances, key = right.axes
    # From the top: the best class first, its name and number above its bar.
    assert chances.get_ylim()[0] > chances.get_ylim()[1]
    assert chances.get_xlim() == (0, 1)
    tracks, bars = chances.containers
    assert [bar.get_width() for bar in tracks] == [1, 1, 1]
    assert [bar.get_width() for bar in bars] == [0.7496, 0.25, 0.0004]
    words = [text.get_text() for text in sorted(chances.texts, key=lambda t: t.get_position()[1])]
    assert words == ["dots", "75.0 %", "along", "25.0 %", "across", "< 0.1 %"]
    assert [text.get_fontweight() for text in chances.texts][:3] == ["bold", "bold", "normal"]
    assert chances.get_title() == "probabilities" + ", not calibrated" * (not calibrated)
    said = dict(zip(key.get_xticks(), (t.get_text() for t in key.get_xticklabels()), strict=True))
    assert said == {-1: "against", 0: "no evidence", 1: "for"}
    scale = np.asarray(key.get_images()[0].get_array())[0]
    assert scale[0, :3].tolist() == list(bytes.fromhex(AGAINST[1:]))
    assert scale[-1, :3].tolist() == list(bytes.fromhex(FOR[1:]))


def test_drawings_have_the_same_bytes(shown, tmp_path):
    for name in ("one", "two"):
        draw_explanation(tmp_path / f"{name}.png", *shown)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (300, 2), (90, 20), (20, 90)])
def test_images_of_any_shape_can_be_drawn(model_path, tmp_path, shape):
    path = tmp_path / "image.png"
    Image.fromarray(np.resize(draw("dots", np.random.default_rng(0)), shape)).save(path)
    output = tmp_path / "out.png"
    explain(model_path, path, "-o", output)
    with Image.open(output) as image:
        assert 500 < image.width < 2500
        assert 300 < image.height < 2500


@pytest.mark.parametrize(
    "name",
    ["$x", "a$b$c", "\x1b[31m", "x" * 500, "\udcff", "new\nline", "%s", "\N{SNOWMAN}", "\u732b"],
)
def test_any_class_name_can_be_drawn(shown, tmp_path, name):
    image, explanation, _ = shown
    ranked = [Ranked(name, 1.0, 0.9), Ranked("other", -1.0, 0.1)]
    draw_explanation(tmp_path / "out.png", image, explanation._replace(label=name), ranked)
    Image.fromarray(image).save(tmp_path / "in.png")
    draw_predictions(tmp_path / "grid.png", [str(tmp_path / "in.png")], [name], ["other"])


def test_explain_command(model_path, image_folder, tmp_path):
    image, output = image_folder / "dots" / "00.png", tmp_path / "out.png"
    result = explain(model_path, image, "-o", output)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["class", "probability"]
    best = load_model(model_path).predict_proba([image]).max()
    assert lines[1].split(maxsplit=1) == ["dots", percent(best)]
    assert "not calibrated" not in result.stdout
    assert f"wrote {output}" in lines
    with Image.open(output) as drawn:
        assert drawn.format == "PNG"


def test_json_has_every_patch(model_path, image_folder, tmp_path):
    image, output = image_folder / "dots" / "00.png", tmp_path / "out.png"
    arguments = (model_path, image, "-o", output, "--label", "along", "--top", 1, "--json")
    found = json.loads(explain(*arguments).stdout)
    expected = load_model(model_path).explain(image, "along")
    assert (found["label"], found["score"]) == ("along", expected.score)
    model = load_model(model_path)
    (scores,), (chances,) = model.decision_function([image]), model.predict_proba([image])
    best = {"label": "dots", "score": scores[2], "probability": pytest.approx(chances[2])}
    assert found["top"] == [best]
    assert found["probability"] == pytest.approx(chances[1])
    assert found["calibrated"]
    for name in ("x", "y", "contributions"):
        assert found[name] == getattr(expected, name).tolist()
    assert (found["width"], found["height"]) == (48, 48)
    assert sum(found["contributions"]) + found["intercept"] == pytest.approx(found["score"])


def test_labels_that_are_numbers(image_folder, tmp_path):
    rng = np.random.default_rng(0)
    images = [draw(kind, rng) for kind in ("dots", "along", "across") for _ in range(4)]
    model = ImageClassifier(random_state=0, n_samples=2000).fit(images, np.repeat([7, 8, 9], 4))
    model.save(tmp_path / "numbers.lrrspm")
    image = image_folder / "dots" / "00.png"
    arguments = (tmp_path / "numbers.lrrspm", image, "-o", tmp_path / "o.png", "--label", "8")
    assert json.loads(explain(*arguments, "--json").stdout)["label"] == "8"


def test_failures_name_the_cause_and_draw_nothing(model_path, image_folder, tmp_path):
    image, output = image_folder / "dots" / "00.png", tmp_path / "out.png"
    explain(model_path, image, "-o", tmp_path / "out.jpg", code=2)
    result = explain(model_path, image, "-o", output, "--label", "cat", code=1)
    assert "'cat'" in result.stderr
    assert "across, along, dots" in result.stderr
    result = explain(model_path, tmp_path / "none.jpg", "-o", output, code=1)
    assert f"{tmp_path / 'none.jpg'}: " in result.stderr
    result = explain(model_path, image, "-o", tmp_path / "no" / "out.png", code=1)
    assert f"{tmp_path / 'no' / 'out.png'}: " in result.stderr
    result = explain(model_path, image_folder, "-o", output, code=1)
    assert f"{image_folder}: " in result.stderr
    assert "folder" in result.stderr
    assert os.listdir(tmp_path) == []


def test_nothing_that_was_given_is_replaced(model_path, image_folder, tmp_path):
    image, model = tmp_path / "image.png", tmp_path / "model.png"
    shutil.copy(image_folder / "dots" / "00.png", image)
    shutil.copy(model_path, model)
    before = image.read_bytes(), model.read_bytes()
    for output in (image, model, tmp_path / "." / "image.png"):
        explain(model, image, "-o", output, code=2)
    assert (image.read_bytes(), model.read_bytes()) == before


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "F", "CMYK"])
def test_people_see_what_is_classified(tmp_path, mode):
    """The colors of an image, made gray, are the gray values that are read."""
    from lrrspm import read_image

    rng = np.random.default_rng(0)
    plain = Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8))
    if mode == "I;16":
        image = Image.fromarray(rng.integers(0, 65536, (30, 40)).astype(np.uint16))
    elif mode == "F":
        image = Image.fromarray(rng.random((30, 40), np.float32))
    else:
        image = plain.convert(mode)
        if "A" in mode:
            image.putalpha(Image.fromarray(rng.integers(0, 256, (30, 40), dtype=np.uint8)))
    ending = "tif" if mode in ("CMYK", "F") else "png"
    exif = Image.Exif()
    exif[0x0112] = 6
    content = io.BytesIO()
    image.save(content, ending if ending == "png" else "tiff", exif=exif)
    (tmp_path / f"p.{ending}").write_bytes(content.getvalue())
    seen = read_thumbnail(content, 900)
    assert seen.size == (30, 40)  # turned
    gray = np.round(np.asarray(seen) @ np.array([0.2989, 0.5870, 0.1140])) / 255
    np.testing.assert_allclose(gray, read_image(tmp_path / f"p.{ending}"), atol=1.01 / 255)


@pytest.mark.parametrize("ending", ["jpg", "png"])
@pytest.mark.parametrize(("size", "wanted"), [((3000, 2000), (200, 133)), ((5000, 2), (200, 1))])
def test_large_images_are_shrunk_for_people(tmp_path, monkeypatch, size, wanted, ending):
    width, height = size
    ramp = np.add.outer(np.linspace(0, 120, height), np.linspace(0, 120, width))
    path = tmp_path / f"ramp.{ending}"
    Image.fromarray(ramp.astype(np.uint8)).save(path)
    seen = read_thumbnail(path, 200)
    assert seen.size == wanted
    rows, columns = ((np.arange(n) + 0.5) / n * 120 for n in wanted[::-1])
    assert np.abs(np.asarray(seen)[..., 0] - np.add.outer(rows, columns)).max() < 4
    # A strip at a time or all at once: the same.
    monkeypatch.setattr("lrrspm.images.decoding._STRIP", 2**30)
    np.testing.assert_array_equal(np.asarray(read_thumbnail(path, 200)), np.asarray(seen))
