"""The API matches its schema: valid and invalid requests generated from it."""

import io

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from schemathesis import GenerationMode

from lrrspm.serve.app import create_app
from lrrspm.serve.worker import Worker
from tests.conftest import draw


@st.composite
def _images(draw_value):
    """Return the bytes of an image of some size, kind and format."""
    size = draw_value(st.integers(1, 64))
    kind = draw_value(st.sampled_from(["across", "along", "dots"]))
    pixels = draw(kind, np.random.default_rng(0), size)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, draw_value(st.sampled_from(["PNG", "JPEG", "TIFF", "BMP"])))
    return file.getvalue()


@pytest.fixture(scope="module")
def schema(model_path):
    # Files of the schema are images.
    schemathesis.openapi.format("binary", _images())
    app = create_app(Worker(model_path, isolated=False), ["localhost", "testserver"])
    return schemathesis.openapi.from_asgi("/openapi.json", app)


POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
CASES = [
    ("/api/predict", "POST", POSITIVE),
    ("/api/predict", "POST", NEGATIVE),
    ("/api/explain", "POST", POSITIVE),
    ("/api/explain", "POST", NEGATIVE),
    ("/api/model", "GET", POSITIVE),  # it has no parameters
]


def test_every_operation_is_tested(schema):
    found = [result.ok() for result in schema.get_all_operations()]
    assert {(one.path, one.method.upper()) for one in found} == {case[:2] for case in CASES}


@pytest.mark.parametrize(("path", "method", "mode"), CASES)
def test_responses_match_the_schema(schema, path, method, mode):
    operation = schema[path][method]

    @settings(
        max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        case.call_and_validate()

    check()
