"""Fitted channels: their arrays, so that a store can keep them, and back."""

from __future__ import annotations

import json
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ..cache import hash_of, part_key
from ..encoders import CodebookEncoder, Encoder

if TYPE_CHECKING:
    from ..channels import Channel

Place = tuple[str, str]
"""A part's role in its channel, and the attribute that holds an array."""

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
_KINDS = {"encoder": "encoders", "pooling": "poolings", "projection": "projections"}


def known_sizes(channel: Channel) -> dict[str, int]:
    """Return the sizes of fitted arrays, by letter, that follow from parameters alone."""
    described = channel.descriptor.n_values
    if channel.projection is None:
        return {"m": described}
    kept = min(channel.projection.n_components, described)
    return {"v": described, "p": kept, "m": channel.projection.n_values(described)}


def array_names(channel: Channel, about: Any) -> dict[Place, str]:
    """Return names in a store for the arrays of a channel that is fitted to a known sample.

    There are none if it is not known for sure what they depend on: labels are no
    part of ``about``.
    """
    if getattr(channel.encoder, "uses_labels", False):
        return {}
    parts = {role: getattr(channel, role) for role in _KINDS}
    parts = {role: part for role, part in parts.items() if part is not None}
    keys = {role: part_key(_KINDS[role], part) for role, part in parts.items()}
    if None in keys.values():
        return {}
    places = [(role, name) for role, part in parts.items() for name in part.derived]
    return {place: hash_of([about, keys, place]) for place in places}


def fitted_arrays(channel: Channel) -> dict[Place, NDArray[Any]]:
    """Return the arrays of a fitted channel as a store takes them, or none.

    A store takes matrices of float32 and float64; vectors (n,) become (1, n).
    """
    parts = {role: getattr(channel, f"{role}_") for role in _KINDS}
    arrays = {
        (role, name): np.atleast_2d(getattr(part, name))
        for role, part in parts.items()
        if part is not None
        for name in part.derived
    }
    taken = (a.ndim == 2 and a.size > 0 and a.dtype in _TYPES for a in arrays.values())
    return arrays if all(taken) else {}


def restore_channel(channel: Channel, arrays: dict[Place, NDArray[Any]]) -> bool:
    """Make a channel what it was when it had these arrays; False if they do not fit."""
    sizes = known_sizes(channel)
    parts: dict[str, Any] = {
        role: None if getattr(channel, role) is None else clone(getattr(channel, role))
        for role in _KINDS
    }
    for (role, name), array in arrays.items():
        letters = parts[role].derived[name]
        shape = array.shape[-len(letters) :]
        if any(sizes.setdefault(a, n) != n for a, n in zip(letters, shape, strict=True)):
            return False
        setattr(parts[role], name, array.reshape(shape))
    parts["encoder"].n_features_in_ = sizes["m"]
    try:
        parts["pooling"].check_fitted()
        parts["encoder"].ready()
    except ValueError:
        return False
    for role, part in parts.items():
        setattr(channel, f"{role}_", part)
    return True


def recipe_of(channel: Channel) -> str | None:
    """Return what a codebook depends on besides the sample; None if it cannot be shared.

    Only plain k-means is shared between classes. Another class's own way to
    learn is shared among equals of a registered class, and never otherwise.
    A class that learns more than a codebook needs the sample itself.
    """
    encoder: Encoder = channel.encoder
    if not isinstance(encoder, CodebookEncoder) or channel.projection is not None:
        return None
    if not encoder.learns_codebook_alone or channel.pooling.derived:
        return None
    if encoder.codebook is not None or not isinstance(encoder.random_state, Integral):
        return None
    if encoder.shares_codebook:
        recipe: Any = {"k-means": encoder.codebook_size, "seed": int(encoder.random_state)}
    else:
        recipe = part_key("encoders", encoder)
        if recipe is None:
            return None
    return json.dumps(recipe, sort_keys=True)
