"""Keys: what a cached result depends on, and nothing else."""

from __future__ import annotations

import hashlib
import importlib
import json
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from .._support.environment import blas_libraries
from .._support.estimators import BaseEstimator
from .._support.registry import registered, source_digest

FORMAT = 1


def hash_of(description: Any) -> str:
    """Return the SHA-256 of something JSON can hold, and of what computes the numbers here."""
    text = json.dumps([FORMAT, makers(), description], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def makers() -> dict[str, str]:
    """Return what the last bits of a result depend on besides its input.

    Decoders, matrix products and compiled loops differ between versions and
    processors, and environment variables choose other kernels of BLAS or
    another target of numba; so may any line of this package, in whatever
    folder it is.
    """
    from numba.core.registry import cpu_target

    triple, processor, features = cpu_target.target_context.codegen().magic_tuple()
    modules = [importlib.import_module(name) for name in ("numba", "numpy", "PIL", "scipy")]
    return {
        "lrrspm": __version__,
        "sources": str(source_digest("lrrspm")),
        "target": f"{triple} {processor} {features}",
        "blas": " + ".join(blas_libraries()),
        **{module.__name__: module.__version__ for module in modules},
    }


def plain(value: Any) -> Any:
    """Return a parameter as JSON holds it, arrays as digests.

    Raises TypeError for what has no fixed value.

    >>> plain({"levels": (1, 2), "norm": None})
    {'levels': [1, 2], 'norm': None}
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return digest_array(value)
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise TypeError(f"a {type(value).__name__} has no fixed value")


def digest_array(array: NDArray[Any]) -> str:
    """Return the SHA-256 of an array with its type and shape."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}:".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def part_key(
    kind: str, part: BaseEstimator, without: tuple[str, ...] = ()
) -> dict[str, Any] | None:
    """Return the name and parameters of a part, except those in ``without``.

    None for a class that is not registered, or has parameters without a fixed
    value: what it computes is never cached. For a class of another package the
    digest of that package's source is part of the key.
    """
    found = registered(kind, part)
    if found is None:
        return None
    parameters = part.get_params(deep=False)
    try:
        key = {name: plain(value) for name, value in parameters.items() if name not in without}
    except TypeError:
        return None
    if found.package is not None:
        source = source_digest(type(part).__module__)
        if source is None:
            return None
        version = {"package": found.package, "version": found.version, "source": source}
        return {"name": found.name, **version, **key}
    return {"name": found.name, **key}


def same_key(value: Any) -> Any:
    """Return something hashable that two values share only if they are the same in memory.

    Estimators are compared by class and parameters, arrays by content, anything
    else without a fixed value by identity.
    """
    if isinstance(value, BaseEstimator):
        items = sorted(value.get_params(deep=False).items())
        return type(value), tuple((name, same_key(item)) for name, item in items)
    if isinstance(value, (list, tuple)):
        return tuple(map(same_key, value))
    if isinstance(value, np.ndarray):
        return digest_array(value)
    try:
        return json.dumps(plain(value), sort_keys=True)
    except TypeError:
        return id(value)
