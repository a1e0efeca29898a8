"""The paper's experiments: settings, rows, tables, figures, the page."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lrrspm import ImageClassifier, find_images
from lrrspm._support.stages import Stages
from lrrspm.cli import app
from lrrspm.evaluation.protocol import evaluate_all, split_seeds
from lrrspm.methods import METHODS
from lrrspm.paper import experiments, figures, runner, studies, tables
from lrrspm.paper.experiments import (
    FIGURES,
    NORMALIZED,
    OWN_CODEBOOK,
    PARTS,
    TABLES,
    Options,
    needed,
)
from lrrspm.paper.published import published, read_published
from lrrspm.paper.report import make_page
from lrrspm.paper.results import Results
from lrrspm.paper.settings import ALL_IMAGES, EVEN, TRAINING_IMAGES, Setting
from lrrspm.paper.studies import STUDY_TABLES
from lrrspm.paper.variants import FLAT, READERS, VARIANTS, VariedFeatures, vary
from lrrspm.report import page
from tests.conftest import HERE, draw, hear_ctrl_c

# The small sets made here are, of course, not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")
SECONDS = dict.fromkeys(("read", "sift", "codebook", "encode", "train", "test"), 1.0)
BICUBIC, ENLARGED = "resized to 300 by Pillow's bicubic", "enlarged to 300"

VIEWS = 12


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A data folder with a small COIL20: three objects, twelve views, one of them a copy."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for number, kind in enumerate(("across", "along", "dots"), start=1):
        folder = root / "COIL20" / f"obj{number}"
        folder.mkdir(parents=True)
        views = [draw(kind, rng, 32) for _ in range(VIEWS)]
        views[1] = views[0]
        for view, pixels in enumerate(views):
            Image.fromarray(pixels).save(folder / f"obj{number}__{view}.png")
    return root


SMALL = {"codebook_size": 16, "n_samples": 2000}


def small(split=0, **changes):
    return Setting("COIL20", 5, split, **{**SMALL, **changes})


def row_of(results, setting):
    found = results.row(setting)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def computed(root, tmp_path_factory) -> Results:
    """Two splits of each method, and LrrSPM with codebooks of its own."""
    results = Results(tmp_path_factory.mktemp("results"))
    settings = [small(split, method=method) for method in METHODS for split in (0, 1)]
    settings += [small(split, codebook=TRAINING_IMAGES) for split in (0, 1)]
    runner.run(settings, results, root, n_jobs=2)
    return results


def cell_of(table, **where):
    found = published(table, **where)
    assert found is not None
    return found


def test_published_numbers():
    counts = {name: len(table.get("cells", [])) for name, table in read_published().items()}
    assert counts == {
        "table3": 5, "table4": 23, "table5": 21, "table7": 35, "table8": 35, "table9": 35,
        "table10": 21, "figure1": 0, "figure3": 0, "figure4": 0,
    }  # fmt: skip
    # Sums over all accuracies of a table, so that a slip in any of them shows.
    sums = {
        name: round(sum(cell["accuracy"] for cell in table["cells"]), 2)
        for name, table in read_published().items()
        if "accuracy" in table.get("cells", [{}])[0]
    }
    assert sums == {
        "table3": 342.25, "table4": 1710.87, "table5": 858.43, "table7": 3377.13, "table8": 3316.2,
        "table9": 2884.58,
    }  # fmt: skip
    for table in ("table4", "table5", "table7", "table8", "table9", "table10"):
        assert {cell["row"] for cell in read_published()[table]["cells"]} >= set(METHODS)
    cell = cell_of("table4", row="LLC", dataset="LS")
    assert (cell["accuracy"], cell["std"], cell["seconds"]) == (76.99, 1.21, 1059.96)
    cell = cell_of("table9", row="KernelSPM", train_per_class=30)
    assert (cell["accuracy"], cell["std"]) == (85.54, 3.53)
    assert cell_of("table10", row="KernelBOF", dataset="COIL20")["classification"] == 11.54
    assert published("table4", row="LLC", dataset="COIL20") is None


def test_any_other_parameter_is_another_result():
    base = Setting("LS", 100)
    others: dict[str, Any] = {
        "dataset": "OT", "train_per_class": 10, "split": 1, "method": "LLC",
        "codebook": TRAINING_IMAGES, "codebook_size": 5, "n_samples": 7, "regularization": 0.1,
        "threshold": 0.5, "normalize_codes": True, "C": 1.0, "norm": "l1", "max_side": None,
        "step": 4, "patch_size": 24, "choice": EVEN, "leave_out_copies": True,
        "images_per_class": 5, "max_classes": 2, "variant": FLAT, "seed": 1, "codebook_seed": 3,
    }  # fmt: skip
    assert set(others) == {field.name for field in fields(Setting)}
    keys = {replace(base, **{name: value}).key for name, value in others.items()}
    assert len(keys | {base.key}) == len(others) + 1


def test_what_a_method_does_not_use_makes_no_difference():
    assert Setting("LS", 10, method="LLC", regularization=0.1) == Setting("LS", 10, method="LLC")


def test_more_splits_keep_the_seeds_of_the_first():
    assert split_seeds(7, 9)[:4] == split_seeds(7, 4)
    assert len(set(split_seeds(7, 9))) == 9


@pytest.mark.parametrize("shared", [True, False])
def test_rows_are_those_of_evaluate(root, computed, shared):
    paths, labels = find_images(root / "COIL20")
    names = list(METHODS) if shared else ["LrrSPM"]
    way = ALL_IMAGES if shared else TRAINING_IMAGES
    classifiers = [
        ImageClassifier(
            METHODS[name].encoder().set_params(codebook_size=16), n_samples=2000, method=name
        )
        for name in names
    ]
    found = evaluate_all(paths, labels, classifiers, 5, 2, shared_codebook=shared, seed=0)
    for name, result in zip(names, found, strict=True):
        rows = computed.rows(small(split, method=name, codebook=way) for split in (0, 1))
        assert [row["accuracy"] for row in rows] == result["accuracy"]["splits"]


def test_a_row_says_everything(computed):
    row = row_of(computed, small(method="ScSPM"))
    assert row["setting"]["dataset"] == "COIL20"
    assert set(row["seconds"]) == {"read", "sift", "codebook", "encode", "train", "test"}
    assert row["per_class"].keys() == {"obj1", "obj2", "obj3"}
    right, tested = np.array(list(row["per_class"].values())).T
    assert tested.tolist() == [VIEWS - 5] * 3
    assert row["accuracy"] == pytest.approx(np.mean(100 * right / tested))
    assert row["peak_mb"] > 50
    environment = computed.environments[row["environment"]]
    assert environment["packages"]["numpy"] == np.__version__
    assert environment["commit"]
    assert environment["cores"]


def test_what_is_there_is_not_computed_again(root, computed, monkeypatch):
    lines = computed.path.read_bytes()
    monkeypatch.setattr(runner, "fit_all", None)
    again = Results(computed.folder)
    runner.run([small(), small(1, method="LLC")], again, root)
    assert computed.path.read_bytes() == lines
    assert again.records == computed.records


def test_half_a_line_is_computed_again(root, computed, tmp_path):
    whole = computed.path.read_bytes()
    (tmp_path / "rows.jsonl").write_bytes(whole[:-40])
    lost = small(1, codebook=TRAINING_IMAGES)
    with pytest.warns(UserWarning, match="its last line is damaged"):
        results = Results(tmp_path)
    assert results.row(lost) is None
    runner.run([lost], results, root)
    again = Results(tmp_path)  # it was told of once
    assert row_of(again, lost)["per_class"] == row_of(computed, lost)["per_class"]


def test_a_class_that_is_too_small_is_a_row_with_the_error(root, tmp_path):
    results = Results(tmp_path)
    too_many = replace(small(), train_per_class=VIEWS)
    runner.run([too_many, small()], results, root)
    assert results.row(small()) is not None
    assert results.row(too_many) is None
    assert "class 'obj1' has 12 images" in results.records[too_many.key]["error"]
    cell = tables.accuracy_cell(results, [too_many])
    assert cell.lines() == ("failed",)


def test_an_unreadable_image_fails_its_data_set_alone(root, tmp_path):
    broken = tmp_path / "COIL20"
    for path in sorted((root / "COIL20").rglob("*.png")):
        target = broken / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (broken / "obj1" / "obj1__3.png").write_text("no picture")
    results = Results(tmp_path / "results")
    runner.run([small(), replace(small(), dataset="YaleB")], results, tmp_path)
    assert "obj1__3.png: not an image" in results.records[small().key]["error"]
    assert len(results.records) == 1  # Yale B is not here, which is no error


def test_copies_of_training_images_are_not_tested(root, tmp_path):
    results = Results(tmp_path)
    left_out = small(leave_out_copies=True)
    runner.run([small(), left_out], results, root)
    paths = np.array(find_images(root / "COIL20")[0])
    training = set(paths[runner.Images(small(), root).training(small())])
    expected = []
    for number in (1, 2, 3):
        folder = root / "COIL20" / f"obj{number}"
        pair = [str(folder / f"obj{number}__{view}.png") in training for view in (0, 1)]
        expected.append(VIEWS - 5 - (sum(pair) == 1))
    tested = [count for _, count in row_of(results, left_out)["per_class"].values()]
    assert tested == expected
    assert sum(expected) < sum(n for _, n in row_of(results, small())["per_class"].values())


def test_evenly_spaced_training_images(root):
    images = runner.Images(small(), root)
    for split in (0, 1):
        chosen = images.training(replace(small(split, choice=EVEN), train_per_class=4))
        views = sorted(int(re.findall(r"__(\d+)", images.paths[i])[0]) for i in chosen)
        assert views == sorted([(split + step) % VIEWS for step in (0, 3, 6, 9)] * 3)


def test_few_images_of_few_classes(root):
    images = runner.Images(small(images_per_class=3, max_classes=2), root)
    assert images.labels.tolist() == ["obj1"] * 3 + ["obj2"] * 3


def test_codebooks_do_not_depend_on_the_methods(root, tmp_path):
    images = runner.Images(small(), root)

    def learn(*methods):
        work = runner._Work(images, Results(tmp_path), None, Stages())
        ((codebook, _),) = work.learn_codebooks([small(method=m) for m in methods]).values()
        return codebook

    expected = learn(*METHODS)
    for method in METHODS:
        assert np.array_equal(learn(method), expected)


def test_other_images_are_another_result(root, computed, tmp_path):
    shutil.copytree(computed.folder, tmp_path / "results")
    shutil.copytree(root, tmp_path / "data")
    (tmp_path / "data" / "COIL20" / "obj1" / "obj1__2.png").unlink()
    results = Results(tmp_path / "results")
    runner.run([small()], results, tmp_path / "data")
    assert row_of(results, small())["images"] == 3 * VIEWS - 1
    assert row_of(computed, small())["images"] == 3 * VIEWS


def test_a_set_that_is_not_the_published_one_is_told_of(root, tmp_path):
    results = Results(tmp_path)
    with pytest.warns(UserWarning, match="COIL20 is not the published set"):
        runner.run([small()], results, root)
    assert row_of(results, small())["other_data"] is True


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_change_what_they_say(tmp_path, variant):
    path = tmp_path / "large.png"
    pixels = draw("slant", np.random.default_rng(0), 400)[:320]
    pixels[:100, :100] = 128
    Image.fromarray(pixels).save(path)
    plain = small().codebook_features(None)
    varied = vary(plain, variant)
    assert isinstance(varied, VariedFeatures)
    gray = varied.read(path)
    if variant == FLAT:
        norms = np.linalg.norm(varied.describe(gray).values, axis=1)
        assert norms[norms > 0] == pytest.approx(1, abs=1e-5)
        usual = np.linalg.norm(plain.describe(plain.read(path)).values, axis=1)
        assert 0 < usual[usual > 0].min() < 0.9
        return
    assert gray.shape == ((200, 200) if "200 x 200" in variant else (240, 300))
    others = [vary(plain, other).read(path) for other in READERS if other != variant]
    others.append(plain.read(path))
    same = [np.array_equal(gray, other) for other in others]
    # Of a large picture Pillow's bicubic and "enlarged" make the same.
    assert sum(same) == (variant in (BICUBIC, ENLARGED))


@pytest.mark.parametrize("enlarged", [False, True])
def test_small_pictures_stay_unless_they_are_to_be_enlarged(root, enlarged):
    path = next((root / "COIL20").rglob("*.png"))
    varied = vary(small().codebook_features(None), ENLARGED if enlarged else BICUBIC)
    assert varied.read(path).shape == ((300, 300) if enlarged else (32, 32))


def test_unknown_variant():
    with pytest.raises(ValueError, match="no variant 'upside down'"):
        vary(small().codebook_features(None), "upside down")


def test_deviations_by_hand():
    cell = tables.Cell(80, 0.3, 5, 5, paper=81, paper_std=0.4)
    assert cell.deviations == pytest.approx(-2)
    assert cell.lines() == ("80.00 ± 0.30", "(81.00 ± 0.40)", "-2.0 sd")
    assert tables.Cell(80, None, 1, 5).lines() == ("80.00 (1 of 5 splits)",)
    assert tables.Cell(None, None, 0, 5, 76.2).lines() == ("not run", "(76.20)")
    # One split has no spread, and other images say nothing about the paper's.
    assert tables.Cell(80, None, 1, 1, 81, 0.4).lines() == ("80.00", "(81.00 ± 0.40)")
    assert replace(cell, other_data=True).lines() == ("80.00 ± 0.30", "(81.00 ± 0.40)")


def test_cells_by_hand(tmp_path):
    results = Results(tmp_path)
    settings = [small(split) for split in range(3)]
    for setting, accuracy in zip(settings, (70.0, 72.0, 77.0), strict=True):
        seconds = {"encode": 1.0, "train": 2.0, "test": accuracy, "read": 1e3, "sift": 1e3}
        results.add_row(setting, accuracy=accuracy, seconds=seconds)
    cell = tables.accuracy_cell(results, settings)
    assert (cell.mean, cell.done, cell.wanted) == (73, 3, 3)
    assert cell.std == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    spent = tables.seconds_cell(results, settings, ("encode", "train", "test"), 5.0)
    assert spent.mean == pytest.approx(76)
    assert spent.lines() == ("76.00", "(5.00)")


def test_changes_of_factors_by_hand(tmp_path):
    results = Results(tmp_path)
    options = Options(splits=2)
    for factor, accuracy in ((experiments.AS_IS, 75.0), (experiments.FACTORS[0], 73.5)):
        for setting in factor.settings("LS", 100, options):
            results.add_row(setting, accuracy=accuracy + setting.split, overall=76.0)
    rows = {row[0][0]: row[1:] for row in studies.factor_table(results, options).rows}
    assert rows["as in the tables"][0] == ("75.50 ± 0.71", "(76.34 ± 0.58)", "-0.9 sd")
    name = "image reading: longer side at most 200"
    assert rows[name] == (("74.00 ± 0.71, -1.50",), ("does not apply",))
    assert rows[studies.OVERALL][0] == ("76.00, +0.50",)
    (said,) = studies.say_factors(results, options)
    assert said.startswith("**LS, 100 a class**: -0.84 points from the paper, -0.9 standard")


def test_what_a_quick_run_cannot_change_does_not_apply():
    factors = {factor.name: factor for factor in experiments.FACTORS}
    for quick in (False, True):
        settings = factors["1024 atoms"].settings("LS", 100, Options(quick=quick))
        assert bool(settings) != quick


def test_agreement_and_readings_by_hand(tmp_path):
    results = Results(tmp_path)
    options = Options(splits=2)
    for changes, accuracy in (({}, 85.0), ({"normalize_codes": True}, 70.0)):
        for setting in options.over_splits(options.setting("OT", 100, **changes)):
            results.add_row(setting, accuracy=accuracy + setting.split, seconds=SECONDS)
    assert studies.say_agreement(results, options) == [
        "LrrSPM: within 2 sd of the paper in 1 of 1 cells, above in 0, below in 0."
    ]
    assert studies.say_readings(results, options) == (
        "Of the two readings of Algorithm 1 the one without normalised codes is nearer to the "
        "paper in 1 of 1 cells. They are furthest apart in table 4, OT: 85.50 ± 0.71 without, "
        "70.50 ± 0.71 with, 85.63 in the paper."
    )


def test_protocol_of_the_tables():
    options = Options()
    table4 = needed("table4", options)
    assert len(table4) == 3 * (7 + 2) * 5
    assert {s.train_per_class for s in table4} == {100}
    own = [s for s in table4 if s.codebook == TRAINING_IMAGES]
    assert {(s.method, s.split) for s in own} == {("LrrSPM", split) for split in range(5)}
    lambdas = {(s.dataset, s.regularization) for s in needed("table5", options) if s.regularization}
    assert lambdas == {("Caltech101", 0.7), ("Caltech256", 0.24), ("17flowers", 0.145)}
    assert {s.codebook_size for s in needed("table3", options)} == {256, 512, 1024, 2048, 4096}
    assert {s.train_per_class for s in needed("table9", options)} == {10, 20, 30, 40, 50}
    assert set(needed("table10", options)) <= {
        s for table in ("table7", "table8", "table9") for s in needed(table, options)
    }
    curves = experiments.curves(options)
    assert list(curves["lambda"])[0::18] == [0.2, 2.0]
    assert list(curves["epsilon"])[0::25] == [0.5, 1.0]


def test_options_choose_other_settings():
    for options in (
        Options(codebook=TRAINING_IMAGES),
        Options(normalize_codes=True),
        Options(leave_out_copies=True),
        Options(seed=1),
        Options(quick=True),
    ):
        usual, other = (
            experiments.cell_settings(TABLES["table4"][0], {"method": "LrrSPM"}, chosen)
            for chosen in (Options(), options)
        )
        assert not set(usual) & set(other)
    for row, options in {
        OWN_CODEBOOK: Options(codebook=TRAINING_IMAGES),
        NORMALIZED: Options(normalize_codes=True),
    }.items():
        assert row in experiments.table_rows("table4", Options())
        assert row not in experiments.table_rows("table4", options)
    assert {s.method for s in needed("table4", Options(methods=("LLC",)))} == {"LLC"}


@pytest.fixture(scope="module")
def quick(root, tmp_path_factory) -> Path:
    """Results of a quick run of everything that the small COIL20 allows."""
    folder = tmp_path_factory.mktemp("quick")
    done = invoke("all", "--quick", root=root, folder=folder)
    assert done.exit_code == 0, done.output
    return folder


def invoke(*arguments, root, folder):
    where = ["--data-dir", str(root), "--results", str(folder)]
    return CliRunner().invoke(app, ["paper", *arguments, *where])


def test_everything_that_the_data_allow(quick):
    rows = Results(quick)
    assert {r["setting"]["dataset"] for r in rows.records.values()} == {"COIL20"}
    assert (quick / "report.html").is_file()
    assert (quick / "figure1.svg").is_file()
    assert (quick / "figure1.png").is_file()
    assert not (quick / "figure3.svg").exists()  # without Yale B
    made = (quick / "report.html").read_text()
    for heading in ("What was run", "Tables", "Where we differ", "How long it took"):
        assert f"<h2>{heading}</h2>" in made
    assert made.count("<table>") == len(TABLES) + len(STUDY_TABLES) + 2
    assert "not run" in made
    assert "A quick run" in made
    # One file, that asks for nothing from elsewhere.
    assert not re.findall(r'(?:src|href)="(?!data:|#)', made)
    assert "<script" not in made


def test_again_gives_the_same_and_computes_nothing(quick, root):
    before = (quick / "rows.jsonl").read_bytes()
    first = invoke("table7", "--quick", "--json", root=root, folder=quick)
    second = invoke("table7", "--quick", "--json", root=root, folder=quick)
    assert first.output == second.output
    assert (quick / "rows.jsonl").read_bytes() == before
    cell = json.loads(first.stdout)["parts"]["table7"]["LLC"]["4 a class"]
    assert cell["done"] == cell["wanted"] == 2
    assert 0 <= cell["mean"] <= 100


@pytest.mark.parametrize(
    ("form", "expected"),
    [("text", "Table 7. Objects"), ("markdown", "| LLC | "), ("html", '<th scope="row">LLC</th>')],
)
def test_tables_in_each_form(quick, root, form, expected):
    done = invoke("table7", "--quick", "--format", form, root=root, folder=quick)
    assert expected in done.output


def test_report_of_nothing(root, tmp_path):
    target = tmp_path / "page.md"
    done = invoke("report", "-o", str(target), root=root, folder=tmp_path / "none")
    assert done.exit_code == 0, done.output
    made = target.read_text()
    # Nothing was run, so every number of a method is the paper's.
    assert "not run<br>(85.63 ± 0.56)" in made
    assert "Nothing has been run yet." in made
    assert "| all | 0 | 0 |" in made
    assert not (tmp_path / "none").exists()


def test_a_page_of_nothing_is_told_of(quick, root):
    done = invoke("report", root=root, folder=quick)
    assert done.exit_code == 0
    assert "no results with these options; it has" in done.stderr


def test_every_part_has_json(quick, root):
    done = invoke(*PARTS, "--quick", "--json", root=root, folder=quick)
    assert set(json.loads(done.stdout)["parts"]) == set(PARTS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table6"], "'table6' is none of: table3"),
        (["table4", "--methods", "LLC,SPM"], "no method 'SPM'"),
        (["table4", "-o", "page.html"], "is for 'all' and 'report'"),
        (["report", "-o", "page.pdf"], "is a .html or a .md file"),
    ],
)
def test_wrong_usage(root, tmp_path, arguments, message):
    done = invoke(*arguments, root=root, folder=tmp_path)
    assert done.exit_code == 2
    assert message in re.sub(r"[│\s]+", " ", done.output)


def test_failures_are_shown_and_counted(tmp_path):
    folder = tmp_path / "COIL20" / "obj1"
    folder.mkdir(parents=True)
    (folder / "obj1__0.png").write_text("no picture")
    done = invoke("table7", "--quick", "--methods", "LLC", root=tmp_path, folder=tmp_path / "r")
    assert done.exit_code == 3
    assert "failed" in done.output
    assert "Failed: class 'obj1' has 1 images" in done.output


def test_killed_runs_end_with_the_same_table(quick, root, tmp_path):
    """kill -9 at random moments, each run going on where the last one was."""
    rng = random.Random(0)
    command = [sys.executable, "-m", "lrrspm", "paper", "table7", "--quick", "--json"]
    command += ["--data-dir", str(root), "--results", str(tmp_path)]
    command += ["--jobs", "1", "--methods", "ScSPM,LLC,LinearBOF"]
    rows = tmp_path / "rows.jsonl"
    for moment in range(4):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if moment % 2:  # while it starts, reads or codes
            time.sleep(rng.uniform(0, 1.5))
        else:  # as soon as it has written something
            size = rows.stat().st_size if rows.exists() else 0
            while process.poll() is None and not (rows.exists() and rows.stat().st_size > size):
                time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["parts"]["table7"]
    through = invoke("table7", "--quick", "--json", root=root, folder=quick)
    expected = json.loads(through.stdout)["parts"]["table7"]
    assert found == {method: expected[method] for method in ("LinearBOF", "ScSPM", "LLC")}


def test_energy_by_hand():
    assert figures.energy_share([3.0, 1.0], 1, 1) == 0.75
    assert figures.energy_share([3.0, 1.0], 1, 2) == 0.9


def test_a_figure_that_fails_does_not_stop_the_rest(root, tmp_path):
    folder = tmp_path / "data" / "YaleB" / "yaleB01"
    folder.mkdir(parents=True)
    for number in range(3):
        Image.fromarray(draw("dots", np.random.default_rng(0), 32)).save(folder / f"{number}.pgm")
    shutil.copytree(root / "COIL20", tmp_path / "data" / "COIL20")
    done = invoke(
        "figure3", "table7", "--quick", "--methods", "LLC",
        root=tmp_path / "data", folder=tmp_path / "results",
    )  # fmt: skip
    assert done.exit_code == 3
    assert "figure3: failed: yaleB01 has 3 images; 12 are needed" in done.output
    assert "Table 7" in done.output


def test_of_several_sets_the_papers_is_drawn(tmp_path):
    results = Results(tmp_path)
    for dataset in ("COIL20", "Caltech101", "LS"):
        parameters = {"figure": "figure1", "dataset": dataset, "seed": 0, "quick": False}
        results.add_figure(parameters, values={})
    record = figures.find("figure1", results, Options())
    assert record is not None
    assert record["setting"]["dataset"] == "Caltech101"


def test_a_full_disk_is_told_of(root, tmp_path):
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "from lrrspm.cli import app\n"
        "app(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", script, "paper", "table7", "--quick", "--methods", "LLC"]
    command += ["--data-dir", str(root), "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "rows.jsonl: cannot be written" in done.stderr
    assert "run it again" in done.stderr
    kept = (tmp_path / "rows.jsonl").read_bytes().count(b"\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the half line
        assert len(Results(tmp_path).records) == kept - 1  # one is the environment
    assert kept > 1


def test_ctrl_c_keeps_what_was_computed(root, tmp_path):
    command = [sys.executable, "-m", "lrrspm", "paper", "table7", "--quick"]
    command += ["--data-dir", str(root), "--results", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    rows = tmp_path / "rows.jsonl"
    while process.poll() is None and not (rows.exists() and rows.stat().st_size > 3000):
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 1
    assert "run it again to go on" in said
    assert "error: stopped" in said
    assert Results(tmp_path).records


def test_several_processes_write_to_one_file(tmp_path):
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from lrrspm.paper.results import Results\nfrom lrrspm.paper.settings import Setting\n"
        "results = Results(Path(sys.argv[1]))\n"
        "for split in range(40):\n"
        "    results.add_row(Setting('LS', int(sys.argv[2]), split), accuracy=1.0)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(number)])
        for number in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert len(Results(tmp_path).records) == 120


def test_figure_of_faces(data_dir, tmp_path):
    results = Results(tmp_path)
    figures.compute("figure3", results, data_dir, Options())
    record = figures.find("figure3", results, Options())
    assert record is not None
    values = record["values"]
    assert len(values["dictionary"]) == len(values["tested"]) == 12
    assert not set(values["dictionary"]) & set(values["tested"])
    ridge, truncated = (np.array(values["codes"][name]) for name in ("ridge", "truncated"))
    keeps = ridge / ridge.sum() >= 0.98 / 12
    assert truncated == pytest.approx(np.where(keeps, ridge, 0), abs=1e-6)
    assert figures.draw("figure3", results, Options()) is not None
    assert all(len(v) == 12 for v in values["singular_values"].values())


def test_results_page_is_that_of_the_rows():
    results = Results(HERE.parent / "benchmarks" / "results" / "paper")
    assert results.records
    made = page.to_markdown(make_page(results, Options()))
    assert (HERE.parent / "docs" / "results.md").read_text() == made
    for figure in FIGURES:
        assert (HERE.parent / "docs" / "figures" / f"{figure}.svg").is_file()


def test_normalised_codes_are_better_as_the_readme_says():
    results = Results(HERE.parent / "benchmarks" / "results" / "paper")
    compared = list(studies._both_readings(results, Options()))
    better = [n.mean >= p.mean for _, p, n in compared if p.mean is not None and n.mean is not None]
    assert len(better) == 13
    assert all(better)
