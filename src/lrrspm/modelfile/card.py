"""Card: a model file and its parameters, for people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .container import local_model, read_description
from .parts import as_json, fitted_places

if TYPE_CHECKING:
    from ..classifier import ImageClassifier


def describe_model(path: str | os.PathLike[str], classifier: ImageClassifier) -> dict[str, Any]:
    """Summarize a model file and the classifier that was loaded from it, as JSON takes it."""
    with local_model(path) as file:
        description, size = read_description(file), file.stat().st_size
    return {
        "model": os.fspath(path),
        "bytes": size,
        "format": description["format"],
        "library": description["library"],
        "classes": description["classes"],
        "summary": classifier.summary_,
        "parameters": describe_parameters(classifier),
    }


def describe_parameters(classifier: ImageClassifier) -> dict[str, Any]:
    """List every parameter of a classifier and its parts, as JSON takes it."""
    features = getattr(classifier, "features_", None)
    given = classifier.new_channels() if features is None else features.new_channels()
    fitted, left_out = {}, {}
    if features is not None:
        fitted = dict(zip(fitted_places(features), features.channels_, strict=True))
        left_out = features.left_out_
    return {
        "method": classifier.method_name,
        "C": classifier.C,
        "max_side": classifier.max_side,
        "min_side": classifier.min_side if features is None else features.min_side,
        "n_samples": classifier.n_samples,
        "seed": as_json(classifier.random_state),
        "channels": [
            {
                "descriptor": _part(channel.descriptor),
                "encoder": {
                    **_part(channel.encoder),
                    **({"atoms": fitted[place].encoder_.n_atoms} if place in fitted else {}),
                },
                "pooling": _part(channel.pooling),
                **({} if channel.projection is None else {"projection": _part(channel.projection)}),
                "levels": as_json(channel.levels),
                "weight": as_json(fitted[place].weight if place in fitted else channel.weight),
                **({} if channel.when is None else {"when": channel.when}),
                **({"left_out": left_out[place]} if place in left_out else {}),
            }
            for place, channel in enumerate(given)
        ],
    }


def _part(part: Any) -> dict[str, Any]:
    parameters = part.get_params(deep=False)
    shown = {
        name: as_json(value)
        for name, value in parameters.items()
        if name not in ("codebook", "random_state")
    }
    return {"name": type(part).__name__, **shown}
