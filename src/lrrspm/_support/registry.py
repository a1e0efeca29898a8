"""Registry: parts by name, ours and those that other packages register as entry points.

Another package registers its classes in its own metadata, here in ``pyproject.toml``::

    [project.entry-points."lrrspm.descriptors"]
    MyDescriptor = "my_package:MyDescriptor"

The groups are ``lrrspm.descriptors``, ``lrrspm.projections``, ``lrrspm.encoders``,
``lrrspm.poolings`` (classes) and ``lrrspm.methods`` (:class:`lrrspm.methods.Method`
objects). What is registered can be cached, saved and loaded, and used by name.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

OURS = {
    "descriptors": {
        "LBP": "lrrspm.descriptors.lbp",
        "LocalColor": "lrrspm.descriptors.local_color",
        "OpponentSIFT": "lrrspm.descriptors.root_sift",
        "RootSIFT": "lrrspm.descriptors.root_sift",
        "SIFT": "lrrspm.descriptors.sift",
    },
    "projections": {"Projection": "lrrspm.descriptors.projection"},
    "encoders": {
        "KernelLRREncoder": "lrrspm.encoders.kernel_lrr",
        "LLCEncoder": "lrrspm.encoders.llc",
        "LRREncoder": "lrrspm.encoders.lrr",
        "LRRWeightEncoder": "lrrspm.encoders.weights",
        "MixtureEncoder": "lrrspm.encoders.mixture",
        "SparseEncoder": "lrrspm.encoders.sparse",
        "SupervisedLRREncoder": "lrrspm.encoders.supervised_lrr",
        "VQEncoder": "lrrspm.encoders.vq",
    },
    "poolings": {
        "AveragePooling": "lrrspm.pooling.sums",
        "HistogramPooling": "lrrspm.pooling.sums",
        "MaxPooling": "lrrspm.pooling.maxima",
        "MomentPooling": "lrrspm.pooling.moments",
        "SignedMaxPooling": "lrrspm.pooling.maxima",
        "VLADPooling": "lrrspm.pooling.vlad",
    },
}
"""Modules of our own parts, by kind and name; imported when they are first asked for."""


class Registered(NamedTuple):
    """Where a part comes from: its name, and the package of another; ours have none."""

    name: str
    package: str | None = None
    version: str | None = None


class MissingPartError(LookupError):
    """A name that nothing is registered under."""


def find(kind: str, name: str) -> Any:
    """Return the class (or method) that is registered under a name."""
    if name in OURS.get(kind, {}):
        return getattr(importlib.import_module(OURS[kind][name]), name)
    for point in _points(kind):
        if point.name == name:
            return point.load()
    raise MissingPartError(f"no {kind[:-1]} is registered under the name {name!r}")


def others(kind: str) -> list[str]:
    """Return the names that other packages register."""
    return sorted({point.name for point in _points(kind)} - set(OURS.get(kind, {})))


def registered(kind: str, part: Any) -> Registered | None:
    """Return what a part's own class is registered as, or None; a subclass is not its parent."""
    cls = type(part)
    home = OURS.get(kind, {}).get(cls.__name__)
    if home == cls.__module__:
        return Registered(cls.__name__)
    for point in _points(kind):
        named = point.attr == cls.__qualname__ and point.name not in OURS.get(kind, {})
        if named and point.dist is not None and point.load() is cls:
            return Registered(point.name, point.dist.name, point.dist.version)
    return None


@lru_cache(maxsize=64)
def source_digest(module: str) -> str | None:
    """Return the SHA-256 of the files of the package that holds a module; None if unknown."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return None
    digest = hashlib.sha256()
    origin = Path(spec.origin)
    paths = sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _points(kind: str) -> list[EntryPoint]:
    return list(entry_points(group=f"lrrspm.{kind}"))
