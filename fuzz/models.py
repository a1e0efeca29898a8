"""Can a damaged model file make the loader raise anything but ModelFileError?"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import atheris
import numpy as np
from safetensors.numpy import load, save

# Before the others: compiled functions cannot be instrumented.
from lrrspm import features, methods, svm  # noqa: F401

with atheris.instrument_imports(include=["lrrspm"]):
    from lrrspm import Channel, ImageClassifier, LLCEncoder, LRREncoder, load_model
    from lrrspm.modelfile.container import ModelFileError

from lrrspm._support.registry import OURS
from lrrspm.methods import METHODS

from ._run import fuzz

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
IMAGES = np.random.default_rng(0).random((6, 20, 20), dtype=np.float32)


def seeds() -> Iterator[bytes]:
    """Yield a small model of each method, one of two channels, and models of format 1."""
    models = [ImageClassifier(method=name, random_state=0) for name in METHODS]
    channels = [Channel(LRREncoder(), levels=(1,)), Channel(LLCEncoder(), weight=2.0)]
    models.append(ImageClassifier(channels=channels, random_state=0))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "model")
        for model in models:
            for place in range(len(model.new_channels())):
                model.set_params(**{f"channels__{place}__encoder__codebook_size": 2})
            model.fit(list(IMAGES), ["a", "b", "c"] * 2).save(path)
            yield path.read_bytes()
    for path in sorted(GOLDEN.glob("format1-*.safetensors")):
        yield path.read_bytes()


MODELS = list(seeds())
NAMES = [*METHODS, *(name for kind in OURS.values() for name in kind), "LinearSVM", "KernelSVM"]


def check(content: bytes, scratch: Path) -> None:
    """Check that what is loaded gives scores, useful or not."""
    path = scratch / "model"
    # After an even first byte comes a file; after an odd one, how to change a good model.
    if content[:1] and content[0] % 2:
        path.write_bytes(edited(atheris.FuzzedDataProvider(content[1:])))
    else:
        path.write_bytes(content[1:])
    try:
        model = load_model(path)
    except ModelFileError as error:
        assert str(error).startswith(f"{path}: ")
        return
    with np.errstate(all="ignore"):  # finite values may be large
        scores = model.decision_function([IMAGES[0]])
        predicted = model.predict([IMAGES[0]])
    assert len(scores) == 1
    assert predicted[0] in model.classes_


def edited(provider: atheris.FuzzedDataProvider) -> bytes:
    """Return a good model with a few changes to its description and its arrays."""
    content = MODELS[provider.ConsumeIntInRange(0, len(MODELS) - 1)]
    length = int.from_bytes(content[:8], "little")
    description = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["lrrspm"])
    arrays = load(content)
    for _ in range(provider.ConsumeIntInRange(1, 3)):
        if provider.ConsumeBool():
            edit_description(description, provider)
        else:
            edit_array(arrays, provider)
    return save(arrays, {"lrrspm": json.dumps(description)})


def edit_description(node: Any, provider: atheris.FuzzedDataProvider) -> None:
    """Walk down a random path and replace or remove what is there."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = keys[provider.ConsumeIntInRange(0, len(keys) - 1)]
        below = node[key]
        if isinstance(below, (dict, list)) and provider.ConsumeBool():
            node = below
            continue
        if provider.ConsumeIntInRange(0, 3) == 0:
            del node[key]
        else:
            node[key] = any_value(provider)
        return


def any_value(provider: atheris.FuzzedDataProvider) -> Any:
    kind = provider.ConsumeIntInRange(0, 8)
    if kind == 0:
        return None
    if kind == 1:
        return provider.ConsumeBool()
    if kind == 2:
        return provider.ConsumeInt(8)
    if kind == 3:
        return provider.ConsumeFloat()
    if kind == 4:
        return provider.ConsumeUnicode(20)
    if kind == 5:
        return [any_value(provider) for _ in range(provider.ConsumeIntInRange(0, 3))]
    if kind == 6:
        return {provider.ConsumeUnicode(5): any_value(provider)}
    if kind == 7:
        return NAMES[provider.ConsumeIntInRange(0, len(NAMES) - 1)]
    return provider.ConsumeIntInRange(-2, 64)


def edit_array(arrays: dict[str, Any], provider: atheris.FuzzedDataProvider) -> None:
    """Give an array another shape, type or value, or remove it."""
    names = sorted(arrays)
    if not names:
        return
    name = names[provider.ConsumeIntInRange(0, len(names) - 1)]
    array = arrays[name]
    kind = provider.ConsumeIntInRange(0, 5)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = array.astype([np.float16, np.float64, np.int32, np.bool_][array.size % 4])
    elif kind == 2:
        arrays[name] = np.ascontiguousarray(array.T)
    elif kind == 3:
        arrays[name] = array[: provider.ConsumeIntInRange(0, len(array))].copy()
    elif kind == 4:
        changed = array.copy().ravel()
        with np.errstate(all="ignore"):
            value = np.float64(provider.ConsumeFloat()).astype(changed.dtype)
        changed[: 1 + len(changed) // 2] = value
        arrays[name] = changed.reshape(array.shape)
    else:
        arrays[provider.ConsumeUnicodeNoSurrogates(10)] = array


if __name__ == "__main__":
    random = np.random.default_rng(0)
    changes = [b"\1" + random.bytes(64) for _ in range(20)]
    fuzz(check, [*(b"\0" + model for model in MODELS), *changes])
