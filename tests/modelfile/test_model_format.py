"""docs/model-format.md is enough to read a model."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file

from lrrspm import ImageClassifier, find_images, load_model
from lrrspm.methods import METHODS
from tests.conftest import HERE, draw, run_alone

PAGE = (HERE.parent / "docs" / "model-format.md").read_text()


def test_the_pages_program_computes_the_same_scores(model_path):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    picture = draw("slant", np.random.default_rng(0), 60)[:47]
    ending = """
import sys
sys.modules["lrrspm"] = None  # nothing of ours can be imported
path, pixels = json.load(sys.stdin)
print(json.dumps(scores(path, np.array(pixels) / 255)))
"""
    done = run_alone(program + ending, json.dumps([str(model_path), picture.tolist()]))
    assert done.returncode == 0, done.stderr
    model = load_model(model_path)
    found = json.loads(done.stdout)
    assert list(found) == model.classes_.tolist()
    expected = model.decision_function([picture])[0]
    np.testing.assert_allclose(list(found.values()), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_the_pages_table_of_arrays(pictures, tmp_path, method):
    rows = re.findall(r"^\| `([\w.]+)` \| ([kmdcs ]+) \| ([\w ]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 8
    encoder = METHODS[method].encoder(codebook_size=5)
    paths, labels = find_images(pictures)
    ImageClassifier(encoder, method=method, random_state=0).fit(paths, labels).save(tmp_path / "m")
    arrays = load_file(tmp_path / "m")
    n_cells = 21 if METHODS[method].pyramid else 1
    sizes = {"k": 5, "m": 128, "d": 5 * n_cells, "c": 3}
    if METHODS[method].kernel:
        sizes["s"] = len(arrays["svm.support_vectors"])
    expected = {
        name: tuple(sizes[letter] for letter in letters.split())
        for name, letters, where in rows
        if {"all", method, type(encoder).__name__} & set(where.split())
    }
    assert {name: array.shape for name, array in arrays.items()} == expected
    assert {str(array.dtype) for array in arrays.values()} <= {"float32", "float64"}
