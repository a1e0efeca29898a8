"""Files of predictions: their columns, their rows, and what they must not replace."""

import csv
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from lrrspm import load_model
from lrrspm._support.rows import RowFile
from lrrspm.cli import app
from lrrspm.images import read_pixels
from tests.conftest import mixed_up

COLUMNS = ["path", "label", "predicted", "confidence", "score", "split", "method", "error"]


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def read(path):
    """Return rows of text; what a file has no value for is empty."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: "" if v is None else str(v) for name, v in row.items()} for row in rows]


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.png"
    path.write_text("not an image")
    return path


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl"])
def test_predict_writes_a_row_per_image(image_folder, model_path, bad, tmp_path, name):
    image, target = image_folder / "dots" / "00.png", tmp_path / name
    done = run("predict", model_path, bad, image, "-o", target, "--json", code=3)
    assert json.loads(done.stdout)["output"] == str(target)
    first, second = read(target)
    assert list(first) == ["path", "label", "confidence", "score", "error"]
    assert first["path"] == str(bad)
    assert first["error"].startswith("not an image")
    assert first["label"] == first["score"] == ""
    assert (second["path"], second["label"], second["error"]) == (str(image), "dots", "")
    model = load_model(model_path)
    assert float(second["confidence"]) == pytest.approx(model.predict_proba(image).max(), abs=1e-6)
    shown = json.loads(done.stdout)["predictions"][0]
    assert float(second["score"]) == pytest.approx(shown["score"], abs=1e-6)


def test_predict_writes_the_best_classes(image_folder, model_path, tmp_path):
    target = tmp_path / "p.csv"
    arguments = ["predict", model_path, image_folder / "dots", "--top", "9"]
    assert run(*arguments, "-o", target).stdout == f"wrote {target}\n12 images\n"
    rows = read(target)
    assert len(rows) == 12
    for row in rows:
        assert {row["label"], row["label_2"], row["label_3"]} == {"across", "along", "dots"}
        assert float(row["score"]) >= float(row["score_2"]) >= float(row["score_3"])
        sure = [float(row[name]) for name in ("confidence", "confidence_2", "confidence_3")]
        assert sum(sure) == pytest.approx(1, abs=1e-5)
        assert sure == sorted(sure, reverse=True)
    assert run(*arguments, "--csv").stdout_bytes == target.read_bytes()


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl"])
def test_evaluate_writes_every_test_image(image_folder, tmp_path, name):
    folder = mixed_up(image_folder, tmp_path / "images")
    (folder / "dots" / "bad.png").write_text("not an image")
    target = tmp_path / name
    done = run(
        "evaluate", folder, "--train-per-class", 4, "--splits", 2, "--codebook-size", 8,
        "--predictions", target, "--json", code=3,
    )  # fmt: skip
    found, rows = json.loads(done.stdout), read(target)
    assert found["predictions_file"] == str(target)
    assert all(list(row) == COLUMNS for row in rows)
    *tested, left_out = rows
    assert left_out["path"] == str(folder / "dots" / "bad.png")
    assert (left_out["label"], left_out["predicted"]) == ("dots", "")
    assert left_out["error"].startswith("not an image")
    place = {name: i for i, name in enumerate(found["class_names"])}
    counts = np.zeros((3, 3), int)
    for row in tested:
        counts[place[row["label"]], place[row["predicted"]]] += 1
        assert row["method"] == "balanced"
        assert 1 / 3 <= float(row["confidence"]) <= 1
    assert counts.tolist() == found["confusion"]
    assert len({(row["path"], row["split"]) for row in tested}) == len(tested) == 48


def test_evaluate_writes_every_method(image_folder, tmp_path):
    target = tmp_path / "p.csv"
    run(
        "evaluate", image_folder, "--train-per-class", 4, "--splits", 1, "--codebook-size", 8,
        "--method", "all", "--predictions", target,
    )  # fmt: skip
    rows = read(target)
    methods = {row["method"] for row in rows}
    tested = {name: {row["path"] for row in rows if row["method"] == name} for name in methods}
    assert len(tested) == 7
    assert all(paths == tested["LrrSPM"] for paths in tested.values())


def test_score_writes_every_image(image_folder, model_path, tmp_path):
    folder, target = mixed_up(image_folder, tmp_path / "images"), tmp_path / "p.csv"
    done = run("score", model_path, folder, "--predictions", target)
    assert f"wrote {target}" in done.stdout
    rows = read(target)
    assert len(rows) == 36
    assert sum(row["label"] != row["predicted"] for row in rows) == 6
    assert {row["split"] for row in rows} == {"1"}


def test_wrong_names_are_refused(image_folder, model_path, tmp_path):
    for command in (
        ["predict", model_path, image_folder, "-o", tmp_path / "p.txt"],
        ["score", model_path, image_folder, "--predictions", tmp_path / "p"],
        ["evaluate", image_folder, "--predictions", model_path],
    ):
        assert ".csv or .jsonl" in json.loads(run(*command, "--json", code=2).stdout)["error"]


def test_a_list_of_images_is_not_replaced(image_folder, model_path, tmp_path):
    listed = tmp_path / "list.csv"
    listed.write_text(f"{image_folder / 'dots' / '00.png'},dots\n")
    before = listed.read_bytes()
    for command in (
        ["predict", model_path, listed, "-o", listed],
        ["score", model_path, listed, "--predictions", listed],
        ["evaluate", listed, "--predictions", listed],
    ):
        assert "would replace" in json.loads(run(*command, "--json", code=2).stdout)["error"]
    model = tmp_path / "model.csv"
    shutil.copy(model_path, model)
    run("predict", model, listed, "-o", model, code=2)
    assert listed.read_bytes() == before


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl"])
def test_predict_resumes_after_a_kill(image_folder, model_path, bad, tmp_path, monkeypatch, name):
    monkeypatch.setattr("lrrspm.pipeline.streaming.BLOCK", 4)
    images = [bad, *sorted(image_folder.glob("*/*.png"))[:13]]
    odd = tmp_path / 'a\r\nb"c.png'  # a row of several lines
    shutil.copy(images[1], odd)
    arguments = ["predict", model_path, odd, *images, "-o", tmp_path / name]
    run(*arguments, code=3)
    expected = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    seen: list[str] = []
    original = RowFile.append

    def stop(self, rows):
        if len(seen) == 2:  # killed while the third block is written
            with self.part.open("ab") as file:
                file.write(b'"half a r')
            raise KeyboardInterrupt
        seen.append("")
        original(self, rows)

    monkeypatch.setattr(RowFile, "append", stop)
    assert "note: 8 rows are kept; the same command resumes" in run(*arguments, code=130).stderr
    monkeypatch.setattr(RowFile, "append", original)
    assert not (tmp_path / name).exists()
    read_again: list[str] = []

    def spy(image, *rest):
        read_again.append(image)
        return read_pixels(image, *rest)

    monkeypatch.setattr("lrrspm.pipeline.chunks.read_pixels", spy)
    done = run(*arguments, code=3)
    assert "resuming after 8 rows" in done.stderr
    assert len(read_again) == len(images) + 1 - 8
    assert (tmp_path / name).read_bytes() == expected
    assert done.stdout.endswith("14 images\n")
    assert "bad.png" in done.stderr  # it was skipped before the kill
    assert not list(tmp_path.glob(".*"))


def test_no_rows_are_promised_where_there_are_none(image_folder, model_path, tmp_path, monkeypatch):
    monkeypatch.setattr(RowFile, "append", lambda *_: interrupted(None))
    done = run("predict", model_path, image_folder, "-o", tmp_path / "p.csv", code=130)
    assert "kept" not in done.stderr


@pytest.mark.parametrize("size", [3, 5, 8])
def test_rows_that_are_printed_too_resume_in_other_blocks(
    image_folder, model_path, tmp_path, monkeypatch, size
):
    """As with --engine or --device, whose blocks differ from what is cut together."""
    monkeypatch.setattr("lrrspm.pipeline.streaming.BLOCK", 4)
    monkeypatch.setattr("lrrspm.pipeline.streaming._SINGLE_BYTES", 1)
    arguments = ["predict", model_path, image_folder, "-o", tmp_path / "p.csv"]
    run(*arguments)
    expected = (tmp_path / "p.csv").read_bytes()
    (tmp_path / "p.csv").unlink()
    original = RowFile.finish
    monkeypatch.setattr(RowFile, "finish", interrupted)
    assert "the same command resumes" in run(*arguments, code=130).stderr
    monkeypatch.setattr(RowFile, "finish", original)
    (part,) = tmp_path.glob(".*.part")
    part.write_bytes(b"".join(part.read_bytes().splitlines(keepends=True)[: 1 + 16]))
    monkeypatch.setattr("lrrspm.pipeline.streaming.block_size", lambda *_: size)
    done = run(*arguments, "--csv")
    assert "resuming after 16 rows" in done.stderr
    assert (tmp_path / "p.csv").read_bytes() == expected


def interrupted(self):
    raise KeyboardInterrupt


def test_another_run_is_not_resumed(image_folder, model_path, tmp_path):
    target = tmp_path / "p.csv"
    with RowFile(target, ["path"], "another run") as other:
        other.append([{"path": "a.png"}])
        with pytest.raises(ValueError, match="another run of the same command"):
            RowFile(target, ["path"], "another run")
    with RowFile(target, ["path"], "another run") as again:
        assert again.done == 1
    done = run("predict", model_path, image_folder / "dots", "-o", target)
    assert "resuming" not in done.stderr
    assert len(read(target)) == 12


def test_an_image_that_was_replaced_is_read_again(image_folder, model_path, tmp_path, monkeypatch):
    monkeypatch.setattr("lrrspm.pipeline.streaming.BLOCK", 1)
    monkeypatch.setattr("lrrspm.pipeline.streaming._SINGLE_BYTES", 1)
    monkeypatch.setattr("lrrspm.pipeline.streaming._BLOCK_BYTES", 1)
    images = [tmp_path / name for name in ("a.png", "b.png", "c.png")]
    for image in images:
        image.write_bytes((image_folder / "dots" / "00.png").read_bytes())
    images[0].write_bytes(b"")
    arguments = ["predict", model_path, *images, "-o", tmp_path / "p.csv"]
    original = RowFile.append
    seen: list[str] = []

    def stop(self, rows):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append("")
        original(self, rows)

    monkeypatch.setattr(RowFile, "append", stop)
    run(*arguments, code=130)
    monkeypatch.setattr(RowFile, "append", original)
    shutil.copy(image_folder / "dots" / "01.png", images[0])
    assert "resuming" not in run(*arguments).stderr
    assert [row["error"] for row in read(tmp_path / "p.csv")] == ["", "", ""]
