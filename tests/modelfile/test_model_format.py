"""docs/model-format.md is enough to read a model."""

import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file

from lrrspm import ImageClassifier, find_images, load_model
from lrrspm.methods import METHODS
from tests.conftest import HERE, draw, run_alone
from tests.modelfile.models import FORMAT_1, FORMAT_1_KERNEL, header

PAGE = (HERE.parent / "docs" / "model-format.md").read_text()


def test_the_pages_program_computes_the_same_scores(model_path):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    image = draw("slant", np.random.default_rng(0), 60)[:47]
    ending = """
import sys
sys.modules["lrrspm"] = None  # nothing of ours can be imported
path, pixels = json.load(sys.stdin)
print(json.dumps(scores(path, np.array(pixels) / 255)))
"""
    done = run_alone(program + ending, json.dumps([str(model_path), image.tolist()]))
    assert done.returncode == 0, done.stderr
    model = load_model(model_path)
    found = json.loads(done.stdout)
    assert list(found) == model.classes_.tolist()
    expected = model.decision_function([image])[0]
    np.testing.assert_allclose(list(found.values()), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_the_pages_table_of_arrays(image_folder, tmp_path, method):
    rows = re.findall(r"^\| `([\w.]+)` \| ([kmdcsn\d ]+) \| ([\w ]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 9
    model = ImageClassifier(method=method, random_state=0)
    model.set_params(channels__0__encoder__codebook_size=5)
    model.fit(*find_images(image_folder)).save(tmp_path / "m")
    arrays = load_file(tmp_path / "m")
    (channel,) = header(tmp_path / "m")["channels"]
    sizes = {
        "k": 5,
        "m": 128,
        "d": 5 * sum(n * n for n in channel["levels"]),
        "c": 3,
        "n": 36,
        "16": 16,
    }
    if METHODS[method].kernel:
        sizes["s"] = len(arrays["svm.support_vectors"])
    parts = {channel["encoder"]["name"], header(tmp_path / "m")["svm"]["name"], "every encoder"}
    parts |= {"all of this version"}
    expected = {
        name.replace(".i.", ".0."): tuple(sizes[letter] for letter in letters.split())
        for name, letters, where in rows
        if where in parts
    }
    assert {name: array.shape for name, array in arrays.items()} == expected
    assert arrays.pop("training.digests").dtype == np.uint8
    assert {str(array.dtype) for array in arrays.values()} <= {"float32", "float64"}


def test_the_pages_keys_are_those_of_a_file(model_path):
    description = header(model_path)
    (channel,) = description["channels"]
    head, _, rest = PAGE.partition("Every channel has these keys")
    for text, expected in (
        (head.partition("## The description")[2], set(description)),
        (rest.partition("## The arrays")[0], set(channel)),
    ):
        rows = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == expected


def test_the_pages_table_of_format_1():
    rows = PAGE.partition("## Format 1")[2].partition("## What")[0]
    for path in (FORMAT_1, FORMAT_1_KERNEL):
        description = header(path)
        for name in [*description["parameters"], *load_file(path)]:
            assert name in rows or name.startswith("svm."), name
