"""Fast low-rank-representation spatial pyramid matching for image classification.

The names below are loaded when they are first used, so that importing the
package, and starting its command, stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .channels import Channel
    from .classifier import ImageClassifier
    from .descriptors import SIFT, dense_sift
    from .encoders import LLCEncoder, LRREncoder, SparseEncoder, VQEncoder, learn_codebook
    from .evaluation import Evaluation, evaluate
    from .evidence import Explanation
    from .features import SpatialPyramidFeatures
    from .images import find_images, read_image
    from .loading import load_model
    from .pooling import (
        AveragePooling,
        HistogramPooling,
        MaxPooling,
        SignedMaxPooling,
        SpatialPyramid,
    )
    from .svm import KernelSVM, LinearSVM

_HOMES = {
    "AveragePooling": "pooling",
    "Channel": "channels",
    "Evaluation": "evaluation",
    "Explanation": "evidence",
    "HistogramPooling": "pooling",
    "ImageClassifier": "classifier",
    "KernelSVM": "svm",
    "LLCEncoder": "encoders",
    "LRREncoder": "encoders",
    "LinearSVM": "svm",
    "MaxPooling": "pooling",
    "SIFT": "descriptors",
    "SignedMaxPooling": "pooling",
    "SparseEncoder": "encoders",
    "SpatialPyramid": "pooling",
    "SpatialPyramidFeatures": "features",
    "VQEncoder": "encoders",
    "dense_sift": "descriptors",
    "evaluate": "evaluation",
    "find_images": "images",
    "learn_codebook": "encoders",
    "load_model": "loading",
    "read_image": "images",
}

__all__ = [
    "SIFT",
    "AveragePooling",
    "Channel",
    "Evaluation",
    "Explanation",
    "HistogramPooling",
    "ImageClassifier",
    "KernelSVM",
    "LLCEncoder",
    "LRREncoder",
    "LinearSVM",
    "MaxPooling",
    "SignedMaxPooling",
    "SparseEncoder",
    "SpatialPyramid",
    "SpatialPyramidFeatures",
    "VQEncoder",
    "dense_sift",
    "evaluate",
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
