"""The settings that each table, figure and study needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .. import config
from ..methods import METHODS
from .settings import ALL_IMAGES, EVEN, TRAINING_IMAGES, Setting
from .variants import FLAT

SIZES = (10, 20, 30, 40, 50)
"""Training images per class in tables 7 to 9."""

TIMED = 50
"""Training images per class in table 10; the paper does not say how many."""

REGULARIZATION = {"Caltech256": 0.24, "17flowers": 0.145}
"""The paper's lambda where it is not 0.7."""

# A quick run: a fifth of the training images, few images and classes, a small codebook.
_QUICK_SHARE, _QUICK_IMAGES, _QUICK_CLASSES = 5, 30, 20
_QUICK_ATOMS, _QUICK_SAMPLES, _QUICK_SPLITS = 64, 20_000, 2


@dataclass(frozen=True)
class Options:
    """Choices of whoever runs the experiments."""

    quick: bool = False
    methods: tuple[str, ...] = tuple(METHODS)
    splits: int = config.SPLITS
    codebook: str = ALL_IMAGES
    normalize_codes: bool = False
    leave_out_copies: bool = False
    seed: int = config.SEED

    @property
    def rounds(self) -> int:
        """Number of splits to run."""
        return min(self.splits, _QUICK_SPLITS) if self.quick else self.splits

    def training(self, train_per_class: int) -> int:
        """Return the training images per class to use where the paper has so many."""
        return max(2, train_per_class // _QUICK_SHARE) if self.quick else train_per_class

    def setting(self, dataset: str, train_per_class: int, **changes: Any) -> Setting:
        """Return the first split of an experiment, with these options."""
        values = {
            "regularization": REGULARIZATION.get(dataset, config.REGULARIZATION),
            "codebook": self.codebook,
            "normalize_codes": self.normalize_codes,
            "leave_out_copies": self.leave_out_copies,
            "seed": self.seed,
            **changes,
        }
        full = Setting(dataset, train_per_class, **values)
        if not self.quick:
            return full
        return replace(
            full,
            train_per_class=self.training(train_per_class),
            images_per_class=_QUICK_IMAGES,
            max_classes=_QUICK_CLASSES,
            codebook_size=min(full.codebook_size, _QUICK_ATOMS),
            n_samples=min(full.n_samples, _QUICK_SAMPLES),
        )

    def over_splits(self, setting: Setting, rounds: int | None = None) -> list[Setting]:
        """Return a setting's splits."""
        return [replace(setting, split=split) for split in range(rounds or self.rounds)]


@dataclass(frozen=True)
class Column:
    """A column of a table: data set, training images per class, codebook size."""

    dataset: str
    train_per_class: int
    codebook_size: int = config.CODEBOOK_SIZE


TABLES: dict[str, tuple[Column, ...]] = {
    "table3": tuple(Column("Caltech101", 30, k) for k in (256, 512, 1024, 2048, 4096)),
    "table4": tuple(Column(name, 100) for name in ("OT", "FP", "LS")),
    "table5": tuple(Column(name, 30) for name in ("Caltech101", "Caltech256", "17flowers")),
    "table7": tuple(Column("COIL20", n) for n in SIZES),
    "table8": tuple(Column("COIL100", n) for n in SIZES),
    "table9": tuple(Column("YaleB", n) for n in SIZES),
    "table10": tuple(Column(name, TIMED) for name in ("COIL20", "COIL100", "YaleB")),
}
FIGURES = ("figure1", "figure3", "figure4")
PARTS = (*TABLES, *FIGURES, "copies", "scaling", "factors")
SCHEMATICS = ("figure1b", "figure2")
NOT_RUN_PARTS = ("table1", "table2", "table6", *SCHEMATICS, "statistics", "claims")
"""Parts that need no run of their own."""

OWN_CODEBOOK = "LrrSPM, codebook from training images"
NORMALIZED = "LrrSPM, codes normalized (Algorithm 1)"
EXTRA_ROWS: dict[str, dict[str, Any]] = {
    OWN_CODEBOOK: {"codebook": TRAINING_IMAGES},
    NORMALIZED: {"normalize_codes": True},
}
"""Extra rows of LrrSPM: the alternative where the paper leaves a choice."""


def table_rows(table: str, options: Options) -> dict[str, dict[str, Any]]:
    """Return the rows of a table: names, and what each changes in a setting."""
    methods = [m for m in METHODS if m in options.methods]
    if table == "table3":
        methods = [m for m in methods if m == config.PAPER_METHOD]
    rows: dict[str, dict[str, Any]] = {method: {"method": method} for method in methods}
    if config.PAPER_METHOD in methods and table not in ("table3", "table10"):
        usual = {"codebook": options.codebook, "normalize_codes": options.normalize_codes}
        for name, changes in EXTRA_ROWS.items():
            if not changes.items() <= usual.items():
                rows[name] = {"method": config.PAPER_METHOD, **changes}
    return rows


def cell_settings(column: Column, changes: dict[str, Any], options: Options) -> list[Setting]:
    """Return the splits behind one cell of a table."""
    setting = options.setting(
        column.dataset, column.train_per_class, codebook_size=column.codebook_size, **changes
    )
    return options.over_splits(setting)


LAMBDAS = tuple(round(0.2 + 0.1 * i, 1) for i in range(19))
EPSILONS = tuple(round(0.5 + 0.02 * i, 2) for i in range(26))


def curves(options: Options) -> dict[str, dict[float, list[Setting]]]:
    """Return the splits on OT for each value of lambda and of epsilon (figure 4)."""
    step = 6 if options.quick else 1

    def splits(**changes: Any) -> list[Setting]:
        return options.over_splits(options.setting("OT", 100, **changes))

    return {
        "lambda": {value: splits(regularization=value) for value in LAMBDAS[::step]},
        "epsilon": {value: splits(threshold=value) for value in EPSILONS[::step]},
    }


def copies(options: Options) -> dict[str, tuple[list[Setting], list[Setting]]]:
    """Return each method's splits on LS: with and without test images that have training copies."""

    def splits(method: str, leave_out: bool) -> list[Setting]:
        setting = options.setting("LS", 100, method=method, leave_out_copies=leave_out)
        return options.over_splits(setting)

    chosen = [method for method in METHODS if method in options.methods]
    return {method: (splits(method, False), splits(method, True)) for method in chosen}


# To the classifier, histograms of n descriptors that sum to 1 are plain counts if C is n**2 times
# as large.
_DESCRIPTORS = 1500
SCALES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear, length 1 (ours)": ("Linear", {}),
    "linear, sum 1": ("Linear", {"norm": "l1"}),
    "linear, plain counts": ("Linear", {"norm": "l1", "C": config.C * _DESCRIPTORS**2}),
    "kernel, C = 0.01": ("Kernel", {"C": 0.01}),
    "kernel, C = 0.1": ("Kernel", {"C": 0.1}),
    "kernel, C = 1": ("Kernel", {"C": 1.0}),
    "kernel, C = 10 (ours)": ("Kernel", {}),
}


def scaling(options: Options) -> dict[str, dict[str, list[Setting]]]:
    """Return the splits on OT of the baselines, for each scale of histograms and C."""
    return {
        name: {
            kind: options.over_splits(options.setting("OT", 100, method=machine + kind, **changes))
            for kind in ("BOF", "SPM")
            if machine + kind in options.methods
        }
        for name, (machine, changes) in SCALES.items()
    }


@dataclass(frozen=True)
class Factor:
    """One choice that could have been made differently.

    Attributes
    ----------
    group, name : str
    changes : dict
        What it changes in a setting.
    only : str
        The only data set that it can affect, or empty.
    rounds : int
        Multiplies the number of splits.
    """

    group: str
    name: str
    changes: dict[str, Any]
    only: str = ""
    rounds: int = 1

    @property
    def title(self) -> str:
        """Group and name."""
        return f"{self.group}: {self.name}" if self.group else self.name

    def settings(self, dataset: str, train: int, options: Options) -> list[Setting]:
        """Return its splits on a data set; empty where it has no effect."""
        if self.only not in ("", dataset):
            return []
        setting = options.setting(dataset, train, **self.changes)
        # A quick run has small codebooks and samples whatever a factor says.
        if options.quick and self.changes and setting == options.setting(dataset, train):
            return []
        return options.over_splits(setting, self.rounds * options.rounds)


AS_IS = Factor("", "as in the tables", {})
_READING, _PATCHES, _SAMPLING = "image reading", "descriptors", "sampling"
_CODES, _SVM, _PROTOCOL = "codes", "classifier", "protocol"
_BICUBIC, _NEAREST = "resized to 300 by Pillow's bicubic", "resized to 300 by the nearest pixel"
# COIL20's images have 128 x 128 pixels, so the way larger ones are shrunk has no effect there.
FACTORS = (
    Factor(_READING, "longer side at most 200", {"max_side": 200}, "LS"),
    Factor(_READING, "longer side at most 250", {"max_side": 250}, "LS"),
    Factor(_READING, "not resized", {"max_side": None}, "LS"),
    Factor(_READING, "resized with Pillow's bicubic filter", {"variant": _BICUBIC}, "LS"),
    Factor(_READING, "resized by the nearest pixel", {"variant": _NEAREST}, "LS"),
    Factor(_READING, "all 200 x 200, as in some copies", {"variant": "resized to 200 x 200"}),
    Factor(_READING, "enlarged to 300", {"variant": "enlarged to 300"}),
    Factor(_PATCHES, "flat patches normalized too", {"variant": FLAT}),
    Factor(_PATCHES, "step 4", {"step": 4}),
    Factor(_PATCHES, "step 8", {"step": 8}),
    Factor(_PATCHES, "patches of 24", {"patch_size": 24}),
    Factor(_SAMPLING, "codebook from training images", {"codebook": TRAINING_IMAGES}),
    Factor(_SAMPLING, "20 000 descriptors", {"n_samples": 20_000}),
    Factor(_SAMPLING, "1 000 000 descriptors", {"n_samples": 1_000_000}),
    Factor(_SAMPLING, "second codebook seed", {"codebook_seed": 1}),
    Factor(_SAMPLING, "third codebook seed", {"codebook_seed": 2}),
    Factor(_SAMPLING, "1024 atoms", {"codebook_size": 1024}),
    Factor(_CODES, "normalized (Algorithm 1)", {"normalize_codes": True}),
    Factor(_CODES, "not truncated", {"threshold": 0.0}),
    Factor(_CODES, "lambda 0.145", {"regularization": 0.145}),
    Factor(_CODES, "lambda 2", {"regularization": 2.0}),
    Factor(_SVM, "C = 1", {"C": 1.0}),
    Factor(_SVM, "C = 15, the number of classes (a bug in the program)", {"C": 15.0}, "LS"),
    Factor(_SVM, "C = 20, the number of classes (a bug in the program)", {"C": 20.0}, "COIL20"),
    Factor(_SVM, "C = 100", {"C": 100.0}),
    Factor(_PROTOCOL, "training views at equal angles", {"choice": EVEN}, "COIL20"),
    Factor(_PROTOCOL, "twice as many splits, as in the program", {}, rounds=2),
)
FACTOR_SETS = (("LS", 100), ("COIL20", 10))


def needed(part: str, options: Options) -> list[Setting]:
    """Return every setting that a part of the page needs; none for figures 1 and 3."""
    return list(dict.fromkeys(_flatten(_structure(part, options))))


def _structure(part: str, options: Options) -> Any:
    """Return the settings of a part in nested containers."""
    if part in TABLES:
        rows = table_rows(part, options).values()
        return [cell_settings(column, row, options) for row in rows for column in TABLES[part]]
    if part == "copies":
        return copies(options)
    if part == "scaling":
        return scaling(options)
    if config.PAPER_METHOD not in options.methods:
        return []
    if part == "figure4":
        return curves(options)
    if part == "factors":
        sets = [(factor, *chosen) for factor in (AS_IS, *FACTORS) for chosen in FACTOR_SETS]
        return [factor.settings(dataset, train, options) for factor, dataset, train in sets]
    return []


def _flatten(content: Any) -> Iterator[Setting]:
    if isinstance(content, Setting):
        yield content
    else:
        for item in content.values() if isinstance(content, dict) else content:
            yield from _flatten(item)
