"""Hostile shards: right checksums, but other content than a run would write."""

import hashlib
import json
import os
import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest
from safetensors.numpy import load, save

from lrrspm import ImageClassifier, LRREncoder
from lrrspm.cache import StoreError, contents
from lrrspm.cache.keys import makers


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    return [rng.random((40, 40)) for _ in range(6)]


def train(arrays, store):
    encoder = LRREncoder(codebook_size=8)
    model = ImageClassifier(encoder, random_state=0, cache=store).fit(arrays, [0, 1] * 3)
    return model.svm_.coef_.tobytes()


@pytest.fixture
def filled(arrays, tmp_path):
    store = tmp_path / "store"
    return store, train(arrays, store)


def replace(store, kind, change):
    """Change the arrays and the description of a kind's shards; checksums are right again."""
    for path in (store / kind).rglob("*.safetensors"):
        content = path.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        about = json.loads(content[8 : 8 + length])["__metadata__"]
        made = change(load(content), about)
        content = made if isinstance(made, bytes) else save(*made)
        path.unlink()
        path.with_name(hashlib.sha256(content).hexdigest() + ".safetensors").write_bytes(content)


def each(function):
    return lambda arrays, about: ({n: function(a) for n, a in arrays.items()}, about)


def header(text):
    return lambda arrays, about: struct.pack("<Q", len(text)) + text.encode()


NESTED = "[" * 100_000

HOSTILE = {
    "one number for all": each(lambda a: np.ones((*a.shape[:-1], 1), a.dtype)),
    "one value more": each(lambda a: np.concatenate([a, a[..., :1]], axis=-1)),
    "a matrix for a vector": each(lambda a: a[None]),
    "NaN": each(lambda a: a * np.float32(np.nan)),
    "whole numbers": each(lambda a: a.astype(np.int64)),
    "half precision": each(lambda a: a.astype(np.float16)),
    "complex": each(lambda a: a.astype(np.complex64)),
    "of another shelf": lambda arrays, about: (arrays, {"lrrspm": '{"other": 1}'}),
    "described by a list": lambda arrays, about: (arrays, {"lrrspm": "[1]"}),
    "described by NaN": lambda arrays, about: (arrays, {"lrrspm": '{"a": NaN}'}),
    "described by nesting": lambda arrays, about: (arrays, {"lrrspm": NESTED}),
    "without description": lambda arrays, about: (arrays, {}),
    "nested header": header(NESTED),
    "a list for a header": header("[]"),
    "a number for an array": header('{"__metadata__": {"lrrspm": "{}"}, "a": 1}'),
    "a shape of text": header(
        '{"__metadata__": {"lrrspm": "{}"}, "a": {"dtype": "F32", "shape": "12"}}'
    ),
    "a giant header": lambda arrays, about: struct.pack("<Q", 2**40) + b"{",
}


@pytest.mark.parametrize("kind", ["vectors", "codebooks"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_shard_that_does_not_fit_is_dropped(name, kind, filled, arrays):
    store, expected = filled
    replace(store, kind, HOSTILE[name])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        contents(store)
        assert train(arrays, store) == expected
    if not (kind == "codebooks" and name in ("one number for all", "one value more")):
        assert any("damaged" in str(one.message) for one in caught)
    # What was computed again is whole.
    assert train(arrays, store) == expected


def test_shards_of_another_shelf_are_not_used(filled, arrays, tmp_path):
    """A shard of another seed's vectors has the right shapes, but is someone else's."""
    store, expected = filled
    other = tmp_path / "other"
    encoder = LRREncoder(codebook_size=8)
    ImageClassifier(encoder, random_state=1, cache=other).fit(arrays, [0, 1] * 3)
    (home,) = (store / "vectors").iterdir()
    for path in (other / "vectors").rglob("*.safetensors"):
        path.rename(home / path.name)
    with pytest.warns(UserWarning, match="another shelf"):
        assert train(arrays, store) == expected


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_a_shard(filled, arrays):
    store, expected = filled
    (home,) = (store / "vectors").iterdir()
    os.mkfifo(home / ("0" * 64 + ".safetensors"))
    assert train(arrays, store) == expected


@pytest.mark.parametrize("marker", ["[" * 900, '{"format": "' + "x" * 5000, "7", "{}"])
def test_a_hostile_marker_is_refused(marker, filled, arrays):
    store, _ = filled
    (store / "lrrspm-store.json").write_text(marker)
    with pytest.raises(StoreError, match="damaged"):
        train(arrays, store)


def test_kernels_and_targets_are_part_of_the_key():
    """Environment variables choose other kernels, and those give other bits."""
    code = "from lrrspm.cache.keys import makers; print(makers())"

    def said(**extra):
        environment = {**os.environ, **extra}
        return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)

    assert {"blas", "target"} <= set(makers())
    assert said(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") != said()
    if "openblas" in makers()["blas"] and "x86_64" in makers()["target"]:
        assert said(OPENBLAS_CORETYPE="Prescott") != said(OPENBLAS_CORETYPE="Haswell")
