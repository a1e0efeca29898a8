"""Fast low-rank-representation spatial pyramid matching for image classification.

The names below are loaded when they are first used, so that importing the
package, and starting its command, stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .classifier import ImageClassifier, load_model
    from .descriptors.sift import dense_sift
    from .encoders.base import LLCEncoder, LRREncoder, VQEncoder
    from .encoders.kmeans import learn_codebook
    from .encoders.sparse import SparseEncoder
    from .evidence import Explanation
    from .features import SpatialPyramidFeatures
    from .images import find_images, read_image
    from .pooling.pyramid import SpatialPyramid
    from .svm.machines import KernelSVM, LinearSVM

_HOMES = {
    "Explanation": "evidence",
    "ImageClassifier": "classifier",
    "KernelSVM": "svm.machines",
    "LLCEncoder": "encoders.base",
    "LRREncoder": "encoders.base",
    "LinearSVM": "svm.machines",
    "SparseEncoder": "encoders.sparse",
    "SpatialPyramid": "pooling.pyramid",
    "SpatialPyramidFeatures": "features",
    "VQEncoder": "encoders.base",
    "dense_sift": "descriptors.sift",
    "find_images": "images",
    "learn_codebook": "encoders.kmeans",
    "load_model": "classifier",
    "read_image": "images",
}

__all__ = [
    "Explanation",
    "ImageClassifier",
    "KernelSVM",
    "LLCEncoder",
    "LRREncoder",
    "LinearSVM",
    "SparseEncoder",
    "SpatialPyramid",
    "SpatialPyramidFeatures",
    "VQEncoder",
    "dense_sift",
    "find_images",
    "learn_codebook",
    "load_model",
    "read_image",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
