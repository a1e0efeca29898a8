import subprocess
import sys

import pytest

import lrrspm

PUBLIC = [
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
    "SIFT",
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


def test_public_names():
    assert sorted(lrrspm.__all__) == PUBLIC
    assert set(PUBLIC) <= set(dir(lrrspm))
    for name in PUBLIC:
        assert getattr(lrrspm, name).__doc__


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lrrspm.nothing


def test_defaults_are_those_of_the_paper():
    assert lrrspm.LRREncoder().get_params() == {
        "codebook": None,
        "codebook_size": 256,
        "normalize_codes": False,
        "random_state": None,
        "regularization": 0.7,
        "threshold": 0.98,
    }
    parameters = lrrspm.ImageClassifier(method="LrrSPM").get_params()
    assert (parameters["max_side"], parameters["n_samples"], parameters["C"]) == (300, 200_000, 10)
    assert parameters["channels__0__levels"] == (1, 2, 4)
    assert parameters["channels__0__descriptor__step"] == 6
    assert parameters["channels__0__descriptor__patch_size"] == 16
    assert parameters["channels__0__encoder__codebook_size"] == 256
    assert isinstance(parameters["channels__0__descriptor"], lrrspm.SIFT)
    assert isinstance(parameters["channels__0__encoder"], lrrspm.LRREncoder)
    assert isinstance(parameters["channels__0__pooling"], lrrspm.MaxPooling)


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from lrrspm.cli import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "heavy = ('numba', 'scipy', 'sklearn', 'numpy', 'fastapi', 'pydantic', 'uvicorn')\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
