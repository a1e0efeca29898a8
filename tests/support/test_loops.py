import os
import subprocess
import sys

import numpy as np
import pytest

from lrrspm._support import loops
from lrrspm._support.loops import compiled

CODE = """
import hashlib, numpy as np
from lrrspm import ImageClassifier
from lrrspm.methods import METHODS
rng = np.random.default_rng(0)
images = [rng.random((70, 60)) for _ in range(6)]
for name in METHODS:
    model = ImageClassifier(method=name, random_state=0)
    model.set_params(channels__0__encoder__codebook_size=16).fit(images, [0, 1] * 3)
    codebook = model.features_.channels_[0].encoder_.codebook_
    print(name, hashlib.sha256(codebook.tobytes()).hexdigest())
    print(name, hashlib.sha256(model.features_.transform(images).tobytes()).hexdigest())
    print(name, hashlib.sha256(model.decision_function(images).tobytes()).hexdigest())
"""


def run(cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_same_bits_from_an_empty_and_from_a_full_cache(tmp_path):
    """A loop that is linked into another one may be optimised in another way than one from disk."""
    first = run(tmp_path)
    assert any(tmp_path.rglob("*.nbc"))
    assert run(tmp_path) == first


def test_works_where_nothing_can_be_kept(monkeypatch):
    from numba.core.dispatcher import Dispatcher

    def refuse(self):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)

    def double(x):
        return 2 * x

    loops._warn_of_compiling.cache_clear()
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR"):
        loop = compiled()(double)
    assert compiled()(double)(1) == 2  # one warning is enough
    np.testing.assert_array_equal(loop(np.arange(3)), [0, 2, 4])
    loops._warn_of_compiling.cache_clear()
