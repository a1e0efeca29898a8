"""Settings and experiments: keys, options, the protocol of the tables."""

from dataclasses import fields, replace
from typing import Any

import pytest

from lrrspm.evaluation import split_seeds
from lrrspm.methods import METHODS
from lrrspm.paper import experiments
from lrrspm.paper.experiments import (
    NORMALIZED,
    OWN_CODEBOOK,
    TABLES,
    Options,
    needed,
)
from lrrspm.paper.published import published, read_published
from lrrspm.paper.results import Results
from lrrspm.paper.settings import EVEN, TRAINING_IMAGES, Setting
from lrrspm.paper.variants import FLAT
from tests.conftest import HERE

# The small sets made here are not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")


def cell_of(table, **where):
    found = published(table, **where)
    assert found is not None
    return found


def test_published_numbers():
    counts = {name: len(table.get("cells", [])) for name, table in read_published().items()}
    assert counts == {
        "table1": 10, "table2": 9, "table3": 5, "table4": 23, "table5": 21, "table6": 10,
        "table7": 35, "table8": 35, "table9": 35, "table10": 21, "figure1": 0, "figure1b": 0,
        "figure2": 0, "figure3": 0, "figure4": 0, "claims": 0,
    }  # fmt: skip
    # Sums over all accuracies of a table, so that a slip in any of them shows.
    sums = {
        name: round(sum(cell["accuracy"] for cell in table["cells"]), 2)
        for name, table in read_published().items()
        if "accuracy" in table.get("cells", [{}])[0]
    }
    assert sums == {
        "table3": 342.25, "table4": 1710.87, "table5": 858.43, "table6": 600.81,
        "table7": 3377.13, "table8": 3316.2, "table9": 2884.58,
    }  # fmt: skip
    for table in ("table4", "table5", "table7", "table8", "table9", "table10"):
        assert {cell["row"] for cell in read_published()[table]["cells"]} >= set(METHODS)
    cell = cell_of("table4", row="LLC", dataset="LS")
    assert (cell["accuracy"], cell["std"], cell["seconds"]) == (76.99, 1.21, 1059.96)
    cell = cell_of("table9", row="KernelSPM", train_per_class=30)
    assert (cell["accuracy"], cell["std"]) == (85.54, 3.53)
    assert cell_of("table10", row="KernelBOF", dataset="COIL20")["classification"] == 11.54
    assert published("table4", row="LLC", dataset="COIL20") is None


def test_every_parameter_changes_the_key():
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


def test_committed_rows_keep_their_keys():
    results = Results(HERE.parent / "benchmarks" / "results" / "paper")
    rows = [record for record in results.records.values() if record["kind"] == "row"]
    assert len(rows) == 1430
    assert all(Setting(**row["setting"]).key == row["key"] for row in rows)


def test_parameters_a_method_ignores_make_no_difference():
    assert Setting("LS", 10, method="LLC", regularization=0.1) == Setting("LS", 10, method="LLC")


def test_more_splits_keep_the_seeds_of_the_first():
    assert split_seeds(7, 9)[:4] == split_seeds(7, 4)
    assert len(set(split_seeds(7, 9))) == 9


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


def test_factors_without_effect_in_a_quick_run_do_not_apply():
    factors = {factor.name: factor for factor in experiments.FACTORS}
    for quick in (False, True):
        settings = factors["1024 atoms"].settings("LS", 100, Options(quick=quick))
        assert bool(settings) != quick
