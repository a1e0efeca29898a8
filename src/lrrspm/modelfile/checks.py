"""Checks: what a model file may say. Nothing in it is believed before it is checked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2**32  # compiled loops count in 64 bits
_MOST_LETTERS = 2**24
_MOST_IMAGES = 2**53  # JSON has whole numbers up to there everywhere
_LONGEST_LIST = 64
# Parameters that may be null, and their kind where they are not.
_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "True or False"}
_OPTIONAL = {"max_side": int, "n_neighbors": int, "norm": str, "random_state": int}


def check_kinds(given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Check that parameters are all there, each of the kind of its default value.

    Returns them with lists as tuples where the default is one. A parameter whose
    default is None may be any number or text.
    """
    if set(given) != set(defaults):
        raise ValueError(f"it has the parameters {sorted(given)[:20]}, expected {sorted(defaults)}")
    return {name: _check_kind(name, value, defaults[name]) for name, value in given.items()}


def _check_kind(name: str, value: Any, default: Any) -> Any:
    if isinstance(default, (tuple, list)) and isinstance(value, list):
        if len(value) > _LONGEST_LIST:
            raise ValueError(f"{name} has more than {_LONGEST_LIST} values")
        first = default[0] if default else None
        return type(default)(_check_kind(name, item, first) for item in value)
    if value is None and (default is None or name in _OPTIONAL):
        return None
    kind = _OPTIONAL.get(name, type(value) if default is None else type(default))
    # 6.0 is a whole number, and 10 stands for 10.0; but True is neither.
    whole = type(value) is int or (type(value) is float and value.is_integer())
    right = type(value) is kind or (whole and kind in (int, float))
    if not right or kind not in _WORDS:
        raise ValueError(f"{name} must be {_WORDS.get(kind, 'plain')}, got {value!r:.100}")
    if kind is int and abs(value) > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST}, got {value!r:.100}")
    return value


def check_classes(names: Any) -> NDArray[Any]:
    """Check class names: two or more of one kind, sorted, all different."""
    if not isinstance(names, list) or len({type(name) for name in names}) != 1:
        raise ValueError("its class names are not a list of one kind")
    # An array gives each name the room of the longest.
    if isinstance(names[0], str) and len(names) * max(map(len, names)) > _MOST_LETTERS:
        raise ValueError("its class names are too many and too long")
    # NumPy makes floats of small and very large whole numbers together.
    large = type(names[0]) is int and min(names) >= 0 and max(names) >= 2**63
    classes = np.array(names, np.uint64 if large else None)
    if classes.ndim != 1 or classes.dtype.kind not in "biufU":
        raise ValueError("its class names are neither numbers nor text")
    if len(classes) < 2 or not np.array_equal(classes, np.unique(classes)):
        raise ValueError("its class names are not two or more, sorted, all different")
    return classes


def check_labels(classes: NDArray[Any]) -> None:
    """Raise ValueError for class labels that a model file would not bring back."""
    try:
        restored = check_classes(json.loads(json.dumps(classes.tolist(), allow_nan=False)))
        same = bool((restored == classes).all())
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"labels cannot be saved: {error}; use text or numbers") from None
    if not same:
        raise ValueError("labels cannot be saved: they would change; use text or numbers")


def check_summary(summary: Any) -> dict[str, Any]:
    """Check what a model file says about its training; keys are those that training writes.

    Older files have ``held_out`` in place of ``estimate``.
    """
    _check_keys("summary", summary, {"images", "images_per_class"}, "estimate", "held_out")
    _check_counts(summary["images"], *summary["images_per_class"].values())
    kept = {key: value for key, value in summary.items() if key != "held_out"}
    if "held_out" in summary:
        _check_keys("held_out", summary["held_out"], {"images", "accuracy"})
        kept.setdefault("estimate", summary["held_out"])
    if "estimate" in kept:
        _check_estimate(kept["estimate"])
    return kept


def _check_estimate(estimate: Any) -> None:
    means = ("low", "high", "precision", "f1")
    named = ("per_class", "precision_per_class")
    _check_keys("estimate", estimate, {"images", "accuracy"}, "folds", "coverage", *means, *named)
    _check_counts(estimate["images"], estimate.get("folds", 0))
    per_class, coverage = [estimate.get(key, {}) for key in named], estimate.get("coverage", [])
    if not all(isinstance(one, dict) for one in per_class) or not isinstance(coverage, list):
        raise ValueError("its estimate is not of the right kind")
    has_means = {"precision", "f1"} <= set(estimate)
    if named[1] in estimate and not (has_means and per_class[0].keys() == per_class[1].keys()):
        raise ValueError("its estimate lacks the precision of a class, or the means")
    if len(coverage) > _LONGEST_LIST:
        raise ValueError(f"its estimate has more than {_LONGEST_LIST} confidences")
    shares = [estimate[key] for key in ("accuracy", *means) if key in estimate]
    for row in coverage:
        _check_keys("coverage", row, {"confidence", "answered", "right"})
        shares += [row["confidence"], row["answered"]]
        shares += [] if row["right"] is None else [row["right"]]
    for share in (*shares, *(share for one in per_class for share in one.values())):
        if type(share) not in (int, float) or not 0 <= share <= 100:
            raise ValueError("its estimate has a number that is not a percentage")


def _check_counts(*counts: Any) -> None:
    if any(type(count) is not int or not 0 <= count <= _MOST_IMAGES for count in counts):
        raise ValueError("its numbers of images are not whole numbers")


def pack_weights(weights: Any) -> Any:
    """Return a class_weight as JSON takes it: labels that are numbers are no keys there."""
    if not isinstance(weights, dict):
        return weights
    plain = [getattr(name, "tolist", lambda name=name: name)() for name in weights]
    return [[name, float(weight)] for name, weight in zip(plain, weights.values(), strict=True)]


def check_class_weight(weights: Any) -> dict[Any, float] | str | None:
    """Check the weights of classes that a model was trained with."""
    if weights is None or weights == "balanced":
        return weights
    pairs = weights if isinstance(weights, list) else [weights]
    for pair in pairs:
        right = isinstance(pair, list) and [type(one) for one in pair[1:]] in ([float], [int])
        if not right or type(pair[0]) not in (str, int, float, bool) or not 0 <= pair[1] < 1e300:
            raise ValueError(f"its class weights have {pair!r:.100}")
    return dict(pairs)


def check_temperature(temperature: Any) -> float | None:
    """Check the temperature of probabilities; None in models without a calibration."""
    if temperature is None:
        return None
    if type(temperature) not in (int, float) or not 1e-6 <= temperature <= 1e6:
        raise ValueError(f"its temperature is {temperature!r:.100}")
    return float(temperature)


def check_familiar(familiar: Any) -> float | None:
    """Check the least familiarity of known images; None in models without a calibration."""
    if familiar is not None and (type(familiar) not in (int, float) or not 0 <= familiar <= 1e9):
        raise ValueError(f"its least familiarity is {familiar!r:.100}")
    return familiar


def _check_keys(name: str, given: Any, needed: set[str], *optional: str) -> None:
    if not isinstance(given, dict) or not needed <= set(given) <= needed | set(optional):
        raise ValueError(f"{name} must have the keys {sorted(needed)}, got {given!r:.100}")
