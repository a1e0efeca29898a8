"""What there is to know about a model file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..encoders.base import LRREncoder
from .container import read_description

if TYPE_CHECKING:
    from ..classifier import ImageClassifier


def describe_model(path: str | os.PathLike[str], classifier: ImageClassifier) -> dict[str, Any]:
    """A model file in numbers and names, as JSON takes them; the classifier is its own."""
    description = read_description(path)
    return {
        "model": os.fspath(path),
        "bytes": os.stat(path).st_size,
        "format": description["format"],
        "library": description["library"],
        "classes": description["classes"],
        "summary": description["summary"],
        "parameters": describe_parameters(classifier),
    }


def describe_parameters(classifier: ImageClassifier) -> dict[str, Any]:
    """Parameters under the names of the command line."""
    features = classifier.new_features()
    encoder = features.encoder.get_params()
    del encoder["codebook"], encoder["random_state"]
    if isinstance(features.encoder, LRREncoder):
        encoder["lambda"] = encoder.pop("regularization")
    if hasattr(classifier, "features_"):
        encoder["codebook_size"] = len(classifier.features_.encoder_.codebook_)
    return {
        "method": classifier.method,
        **encoder,
        "pooling": features.pooling,
        "C": classifier.C,
        "step": classifier.step,
        "patch_size": classifier.patch_size,
        "levels": list(features.levels),
        "max_side": classifier.max_side,
        "n_samples": classifier.n_samples,
        "seed": classifier.random_state,
    }
