"""Format 1: models of one SIFT channel, described as format 2 describes them."""

from __future__ import annotations

from typing import Any

from .. import config
from .checks import check_kinds

_POOLINGS = {
    "max": "MaxPooling",
    "signed_max": "SignedMaxPooling",
    "average": "AveragePooling",
    "histogram": "HistogramPooling",
}
# Method: its pooling and norm, whether it has a pyramid, and its kernel.
_METHODS = {
    "LrrSPM": ("max", "l2", True, None),
    "LinearBOF": ("histogram", "l2", False, None),
    "KernelBOF": ("histogram", "l1", False, "intersection"),
    "LinearSPM": ("histogram", "l2", True, None),
    "KernelSPM": ("histogram", "l1", True, "intersection"),
    "ScSPM": ("max", "l2", True, None),
    "LLC": ("signed_max", "l2", True, None),
}
_PARAMETERS: dict[str, Any] = {
    "method": config.PAPER_METHOD,
    "step": config.STEP,
    "patch_size": config.PATCH_SIZE,
    "max_side": config.MAX_SIDE,
    "levels": config.LEVELS,
    "pooling": None,
    "C": config.C,
    "n_samples": config.N_SAMPLES,
    "random_state": None,
}
_ARRAYS = {
    "codebook": "channels.0.codebook",
    "encoder.projection": "channels.0.projection",
    "encoder.total": "channels.0.total",
    "encoder.gram": "channels.0.gram",
}


def upgrade(description: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a format 1 file as format 2 has it."""
    old = check_kinds(description["parameters"], _PARAMETERS)
    pooling, norm, pyramid, kernel = _METHODS[old["method"]]
    encoder = description["encoder"]
    svm = {"C": old["C"]} | ({} if kernel is None else {"kernel": kernel})
    return {
        "method": old["method"],
        "classes": description["classes"],
        "summary": description["summary"],
        "max_side": old["max_side"],
        "n_samples": old["n_samples"],
        "random_state": old["random_state"],
        "channels": [
            {
                "descriptor": {
                    "name": "SIFT",
                    "parameters": {name: old[name] for name in ("step", "patch_size")},
                },
                "encoder": {
                    "name": encoder["type"],
                    "parameters": encoder["parameters"],
                    "codebook_given": encoder["codebook_given"],
                },
                "pooling": {
                    "name": _POOLINGS[old["pooling"] or pooling],
                    "parameters": {"norm": norm},
                },
                "levels": list(old["levels"]) if pyramid else [1],
                "weight": 1.0,
            }
        ],
        "svm": {"name": "KernelSVM" if kernel else "LinearSVM", "parameters": svm},
    }


def array_name(name: str) -> str:
    """Return the name that format 2 has for an array."""
    return _ARRAYS.get(name, name)
