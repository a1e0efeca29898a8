"""Figures: numbers by hand, data sets, failures."""

import shutil

import numpy as np
import pytest
from PIL import Image

from lrrspm.paper import figures
from lrrspm.paper.experiments import (
    Options,
)
from lrrspm.paper.results import Results
from tests.conftest import draw
from tests.paper.helpers import (
    invoke,
)

# The small sets made here are not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")


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
    assert "figure3: failed: `yaleB01 has 3 images; 12 are needed" in done.output
    assert "Table 7" in done.output


def test_the_papers_data_set_is_preferred(tmp_path):
    results = Results(tmp_path)
    for dataset in ("COIL20", "Caltech101", "LS"):
        parameters = {"figure": "figure1", "dataset": dataset, "seed": 0, "quick": False}
        results.add_figure(parameters, values={})
    record = figures.find("figure1", results, Options())
    assert record is not None
    assert record["setting"]["dataset"] == "Caltech101"


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
