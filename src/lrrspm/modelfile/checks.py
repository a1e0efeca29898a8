"""What a model file may say. Nothing that it says is believed before it is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..descriptors.sift import N_VALUES, check_grid
from ..encoders.base import CodebookEncoder
from ..svm.machines import KernelSVM, LinearSVM
from .container import Tensor

_LARGEST = 2**32  # compiled loops count in 64 bits
_MOST_LETTERS = 2**24
# Parameters that may be null, and their kind where they are not.
_OPTIONAL = {"max_side": int, "n_neighbors": int, "pooling": str, "random_state": int}


def tensor_name(part: str, attribute: str) -> str:
    """The name of a fitted attribute's array, such as svm.coef."""
    return f"{part}.{attribute.rstrip('_')}"


def check_tensors(
    tensors: dict[str, Tensor],
    encoder: CodebookEncoder,
    svm: LinearSVM | KernelSVM,
    n_cells: int,
    classes: NDArray[Any],
) -> int:
    """Check the arrays' names, kinds and shapes by the letters that their owners name.

    Returns the length of an image's vector.
    """
    k = tensors["codebook"].shape[0]
    sizes = {"k": k, "m": N_VALUES, "d": n_cells * k, "c": len(classes)}
    if sizes["c"] == 2:
        sizes["c"] = 1
    letters = {"codebook": "km"}
    for part, owner in (("encoder", encoder), ("svm", svm)):
        for name, shape in owner.derived.items():
            letters[tensor_name(part, name)] = shape
    if set(tensors) != set(letters):
        raise ValueError(f"it has the arrays {sorted(tensors)}, expected {sorted(letters)}")
    if isinstance(svm, KernelSVM):
        sizes["s"] = tensors["svm.support_vectors"].shape[0]
    for name, tensor in tensors.items():
        expected = tuple(sizes[letter] for letter in letters[name])
        if tensor.shape != expected or 0 in expected:
            raise ValueError(
                f"{name} has shape {tensor.shape}, expected {expected}, none of them 0"
            )
        if tensor.dtype not in ("F32", "F64"):
            raise ValueError(f"{name} holds {tensor.dtype}, expected F32 or F64")
    return sizes["d"]


def check_kinds(given: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Parameters of a model file are all there, and of the kind of their default values."""
    if set(given) != set(defaults):
        raise ValueError(f"it has the parameters {sorted(given)}, expected {sorted(defaults)}")
    for name, value in given.items():
        if value is None and name in _OPTIONAL:
            continue
        kind = _OPTIONAL.get(name, type(defaults[name]))
        # 6.0 is a whole number, and 10 stands for 10.0; but True is neither.
        whole = type(value) is int or (type(value) is float and value.is_integer())
        if not (type(value) is kind or (whole and kind in (int, float))):
            raise ValueError(f"{name} is {value!r}")
        if kind is int and abs(value) > _LARGEST:
            raise ValueError(f"{name} is {value!r}, at most {_LARGEST}")


def check_sizes(step: int, patch_size: int, max_side: int | None) -> None:
    """Sizes in pixels that a model file may ask for."""
    check_grid(step, patch_size)
    if max_side is not None and max_side < 1:
        raise ValueError(f"max_side is {max_side}")


def check_classes(names: Any) -> NDArray[Any]:
    """Class names of a model file: two or more of one kind, sorted, all different."""
    if not isinstance(names, list) or len({type(name) for name in names}) != 1:
        raise ValueError("its class names are not a list of one kind")
    # An array gives each name the room of the longest.
    if isinstance(names[0], str) and len(names) * max(map(len, names)) > _MOST_LETTERS:
        raise ValueError("its class names are too many and too long")
    classes = np.array(names)
    if classes.ndim != 1 or classes.dtype.kind not in "biufU":
        raise ValueError("its class names are neither numbers nor text")
    if len(classes) < 2 or not np.array_equal(classes, np.unique(classes)):
        raise ValueError("its class names are not two or more, sorted, all different")
    return classes


def check_summary(summary: Any) -> dict[str, Any]:
    """What a model file says about its training."""
    counts = [summary["images"], *summary["images_per_class"].values()]
    if "held_out" in summary:
        counts.append(summary["held_out"]["images"])
        accuracy = summary["held_out"]["accuracy"]
        if isinstance(accuracy, bool) or not 0 <= accuracy <= 100:
            raise ValueError("its estimated accuracy is no percentage")
    if any(type(count) is not int or count < 0 for count in counts):
        raise ValueError("its numbers of images are no whole numbers")
    return dict(summary)
