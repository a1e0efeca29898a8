"""Parts: estimators <-> names, parameters and arrays, all of it checked on the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support import registry
from ..channels import Channel, Weight
from ..features import SpatialPyramidFeatures
from ..images import scale_to
from ..pipeline import known_sizes
from ..pooling import SpatialPyramid
from ..svm import SVM, KernelSVM, LinearSVM
from .checks import check_kinds
from .container import Tensor

_SVMS: dict[str, type[SVM]] = {"KernelSVM": KernelSVM, "LinearSVM": LinearSVM}
_KINDS = {"descriptor": "descriptors", "encoder": "encoders", "pooling": "poolings"}
_OPTIONAL_KEYS = {"projection", "when", "left_out", "learns_weight"}
_PART_KEYS = {"name", "parameters", "package", "codebook_given"}
_FEATURES = ("max_side", "n_samples", "random_state")
_MOST_CHANNELS = 64
_LONGEST_REASON = 200


class Packed(NamedTuple):
    """A description as JSON takes it, arrays by name, and packages of others that it needs."""

    description: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    requires: dict[str, str]


class UnsavableError(ValueError):
    """A classifier with parts that a model file cannot hold."""


def pack(features: SpatialPyramidFeatures, svm: SVM) -> Packed:
    """Describe fitted features and a fitted SVM; refuse what could not be restored."""
    description, requires = _describe_all(features, svm, features.left_out_)
    arrays = {f"svm.{_plain_name(name)}": getattr(svm, name) for name in svm.derived}
    for place, channel in zip(fitted_places(features), features.channels_, strict=True):
        for part, prefix in _owners(place, channel.encoder_, channel.pooling_, channel.projection_):
            for name in part.derived:
                arrays[prefix + _plain_name(name)] = getattr(part, name)
    return Packed(description, arrays, requires)


def fitted_places(features: SpatialPyramidFeatures) -> list[int]:
    """Return the places of fitted channels among those given."""
    given = range(len(features.channels or [None]))
    return [place for place in given if place not in features.left_out_]


def check_restorable(features: SpatialPyramidFeatures, svm: SVM, saved: bool = False) -> None:
    """Raise ValueError for unfitted parts with which a model file would be refused.

    Parts that no model file can hold pass, unless the model is to be ``saved``: they
    can be used.
    """
    try:
        description, _ = _describe_all(features, svm)
    except UnsavableError:
        if saved:
            raise
        return
    try:
        text = json.dumps(description, allow_nan=False)
    except ValueError:
        raise ValueError("parameters must be finite numbers") from None
    restore(json.loads(text))


def _describe_all(
    features: SpatialPyramidFeatures, svm: SVM, left_out: Mapping[int, str] | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Describe features and SVM, fitted or not; also return the packages that they need."""
    if not features.reads_plainly:
        raise UnsavableError(
            f"models with features of class {type(features).__name__} cannot be saved: only "
            "registered descriptors, encoders and poolings can; see lrrspm._support.registry"
        )
    requires: dict[str, str] = {}
    listed = []
    weights = {}
    if left_out is not None:
        fitted = zip(fitted_places(features), features.channels_, strict=True)
        weights = {place: channel.weight for place, channel in fitted}
    for place, channel in enumerate(features.new_channels()):
        described: dict[str, Any] = {"levels": as_json(channel.pyramid.levels)}
        weight = weights.get(place, channel.weight or 1.0)
        described["weight"] = as_json(weight) if isinstance(weight, tuple) else float(weight)
        if channel.weight is None:
            described["learns_weight"] = True
        for role, kind in _KINDS.items():
            described[role] = _describe(kind, getattr(channel, role), requires)
        if channel.projection is not None:
            described["projection"] = _describe("projections", channel.projection, requires)
        if channel.when is not None:
            described["when"] = channel.when
        if left_out and place in left_out:
            described["left_out"] = left_out[place]
        listed.append(described)
    parameters = features.get_params(deep=False)
    svm_parameters = {"C": as_json(svm.C)}
    if isinstance(svm, KernelSVM):
        svm_parameters["kernel"] = svm.kernel
    elif svm.loss != LinearSVM().loss:  # other files are as they were before there was a choice
        svm_parameters["loss"] = svm.loss
    description = {
        **{name: as_json(parameters[name]) for name in _FEATURES},
        **({} if features.min_side is None else {"min_side": as_json(features.min_side)}),
        "channels": listed,
        "svm": {"name": type(svm).__name__, "parameters": svm_parameters},
    }
    return description, requires


def _describe(kind: str, part: Any, requires: dict[str, str]) -> dict[str, Any]:
    found = registry.registered(kind, part)
    if found is None:
        cls = type(part)
        raise UnsavableError(
            f"models with a {cls.__module__}.{cls.__qualname__} cannot be saved: it is not "
            f"registered; declare an entry point in the group lrrspm.{kind}"
        )
    parameters = part.get_params(deep=False)
    described: dict[str, Any] = {"name": found.name}
    # A codebook that was given is among the arrays anyway.
    if "codebook" in parameters:
        described["codebook_given"] = parameters.pop("codebook") is not None
    for name, value in parameters.items():
        # A generator in place of a seed is known to be lost.
        if name != "random_state" and not _is_plain(value):
            raise UnsavableError(
                f"models with this {found.name} cannot be saved: its parameter {name} is a "
                f"{type(value).__name__}; use numbers, text, or lists of them"
            )
    described["parameters"] = {name: as_json(value) for name, value in parameters.items()}
    if found.package is not None:
        described["package"] = found.package
        requires[found.package] = str(found.version)
    return described


def _is_plain(value: Any) -> bool:
    """Return True if a model file can hold a parameter."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or as_json(value) is not None


def as_json(value: Any) -> Any:
    """Return a parameter as JSON takes it; None for what JSON cannot hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    return value if isinstance(value, (int, float, str, bool)) else None


def _plain_name(attribute: str) -> str:
    return attribute.rstrip("_")


def _owners(place: int, encoder: Any, pooling: Any, projection: Any) -> list[tuple[Any, str]]:
    """List the parts of a channel that may have arrays, and how the arrays' names begin."""
    owners = [(encoder, f"channels.{place}."), (pooling, f"channels.{place}.pooling.")]
    if projection is not None:
        owners.append((projection, f"channels.{place}.projection."))
    return owners


class Restored(NamedTuple):
    """Features and SVM with checked parameters, still without arrays."""

    features: SpatialPyramidFeatures
    svm: SVM


def restore(description: dict[str, Any]) -> Restored:
    """Build features and SVM from a description; every value is checked."""
    defaults = {name: getattr(SpatialPyramidFeatures(), name) for name in _FEATURES}
    given = check_kinds({name: description[name] for name in _FEATURES}, defaults)
    if "min_side" in description:
        given |= check_kinds({"min_side": description["min_side"]}, {"min_side": config.MIN_SIDE})
    scale_to((1, 1), given["max_side"], given.get("min_side"))  # refuses what is out of range
    listed = description["channels"]
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MOST_CHANNELS:
        raise ValueError(f"channels must be a list of 1 to {_MOST_CHANNELS}")
    channels = [_restore_channel(one) for one in listed]
    features = SpatialPyramidFeatures(channels, **given)
    features.check_parameters()
    for channel, one in zip(channels, listed, strict=True):
        if "learns_weight" in one:
            channel.weight = None
    features.left_out_ = {i: one["left_out"] for i, one in enumerate(listed) if "left_out" in one}
    svm = description["svm"]
    made = _SVMS[svm["name"]]()
    expected: dict[str, Any] = {"C": made.C}
    if isinstance(made, KernelSVM):
        expected["kernel"] = made.kernel
    elif "loss" in svm["parameters"]:
        expected["loss"] = made.loss
    parameters = check_kinds(svm["parameters"], expected)
    made.set_params(**parameters, random_state=given["random_state"])
    made.check_parameters()
    return Restored(features, made)


def _restore_channel(described: dict[str, Any]) -> Channel:
    if set(described) - _OPTIONAL_KEYS != {*_KINDS, "levels", "weight"}:
        raise ValueError(f"a channel has the keys {sorted(described)}")
    levels, weight, when = described["levels"], described["weight"], described.get("when")
    if not isinstance(levels, list) or not 1 <= len(levels) <= 64:
        raise ValueError("levels must be a list of 1 to 64 numbers")
    flat = [n for one in levels for n in (one if isinstance(one, list) else [one])]
    per_level = weight if isinstance(weight, list) else [weight]
    if any(type(n) is not int for n in flat) or any(type(w) not in (int, float) for w in per_level):
        raise ValueError(f"levels are {str(levels)[:100]}, the weight is {str(weight)[:100]}")
    if described.get("learns_weight", True) is not True:
        raise ValueError(f"learns_weight is {described['learns_weight']!r:.100}")
    if "left_out" in described:
        why = described["left_out"]
        if when is None or not isinstance(why, str) or len(why) > _LONGEST_REASON:
            raise ValueError(f"a channel for {when!r:.100} is left out: {why!r:.100}")
    parts = {role: _restore_part(kind, described[role]) for role, kind in _KINDS.items()}
    if "projection" in described:
        parts["projection"] = _restore_part("projections", described["projection"])
    grids = SpatialPyramid(tuple(levels)).levels
    return Channel(**parts, levels=grids, weight=_restore_weight(weight), when=when)


def _restore_weight(weight: Any) -> Weight:
    return tuple(map(float, weight)) if isinstance(weight, list) else float(weight)


def _restore_part(kind: str, described: dict[str, Any]) -> Any:
    if not {"name", "parameters"} <= set(described) <= _PART_KEYS:
        raise ValueError(f"a part has the keys {sorted(described)}")
    name, package = described["name"], described.get("package")
    try:
        cls = registry.find(kind, name)
    except registry.MissingPartError:
        raise MissingPackageError(kind, name, package) from None
    part = cls()
    found = registry.registered(kind, part)
    if found is None or found.package != package:
        raise MissingPackageError(kind, name, package)
    defaults = part.get_params(deep=False)
    defaults.pop("codebook", None)
    return part.set_params(**check_kinds(described["parameters"], defaults))


class MissingPackageError(Exception):
    """A part of a package that is not installed."""

    def __init__(self, kind: str, name: Any, package: Any) -> None:
        name = str(name)[:100]
        if isinstance(package, str):
            text = f"needs the package {package[:100]!r} for its {kind[:-1]} {name!r}; install it"
        else:
            text = f"damaged: it has an unknown {kind[:-1]} {name!r}"
        super().__init__(text)


def fill(
    restored: Restored,
    description: dict[str, Any],
    tensors: dict[str, Tensor],
    classes: NDArray[Any],
    read: Any,
) -> dict[str, NDArray[Any]]:
    """Check names, kinds and shapes of arrays, then read all, put these in place, and return all.

    ``tensors`` are those of features and SVM.
    """
    features, svm = restored
    given = features.new_channels()
    channels = {place: given[place] for place in fitted_places(features)}
    sizes: dict[str, int] = {"c": 1 if len(classes) == 2 else len(classes)}
    letters: dict[str, tuple[str, dict[str, int]]] = {}
    own: dict[int, dict[str, int]] = {}
    for place, channel in channels.items():
        own[place] = known = known_sizes(channel)
        for part, prefix in _owners(place, channel.encoder, channel.pooling, channel.projection):
            for name, shape in part.derived.items():
                letters[prefix + _plain_name(name)] = (shape, known)
    for name, shape in svm.derived.items():
        letters[f"svm.{_plain_name(name)}"] = (shape, sizes)
    if set(tensors) != set(letters):
        raise ValueError(f"it has the arrays {sorted(tensors)[:20]}, expected {sorted(letters)}")
    for name, (shape, known) in letters.items():
        _check_shape(name, tensors[name], shape, known)
    if any("k" not in known for known in own.values()):
        raise ValueError("an encoder without atoms")
    width = sum(
        SpatialPyramid(channel.levels).n_cells
        * channel.pooling.width(own[place]["k"], own[place]["m"])
        for place, channel in channels.items()
    )
    if sizes["d"] != width:
        raise ValueError(f"the SVM has {sizes['d']} columns, the features {width}")

    arrays = read()
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite numbers")
    for place, channel in channels.items():
        encoder = channel.encoder
        channel.when = None  # decided
        channel.weight = _restore_weight(description["channels"][place]["weight"])
        for part, prefix in _owners(place, encoder, channel.pooling, channel.projection):
            for name in part.derived:
                setattr(part, name, arrays[prefix + _plain_name(name)])
        channel.pooling.check_fitted()
        encoder.n_features_in_ = own[place]["m"]
        if description["channels"][place]["encoder"].get("codebook_given"):
            assert features.channels is not None
            for template in (encoder, features.channels[place].encoder):
                template.set_params(codebook=encoder.codebook_)
        encoder.ready()
        channel.encoder_, channel.pooling_ = encoder, channel.pooling
        channel.projection_ = channel.projection
    features.channels_ = list(channels.values())
    for name in svm.derived:
        setattr(svm, name, arrays[f"svm.{_plain_name(name)}"])
    svm.classes_ = classes
    svm.n_features_in_ = width
    return arrays


def _check_shape(name: str, tensor: Tensor, letters: str, known: dict[str, int]) -> None:
    """Check an array by its letters; a letter that is met for the first time is a new size."""
    if len(tensor.shape) != len(letters) or 0 in tensor.shape:
        raise ValueError(f"{name} has shape {tensor.shape}, expected {len(letters)} sizes, none 0")
    for letter, size in zip(letters, tensor.shape, strict=True):
        if known.setdefault(letter, size) != size:
            raise ValueError(f"{name} has shape {tensor.shape}, expected {known[letter]}")
    kinds = ("F16", "F32", "F64") if name == "svm.coef" else ("F32", "F64")
    if tensor.dtype not in kinds:
        raise ValueError(f"{name} holds {tensor.dtype}, expected {' or '.join(kinds)}")
