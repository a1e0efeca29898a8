"""Fixtures: small servers in this process, and an image to send."""

import asyncio
import io
import selectors

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from lrrspm.serve.app import create_app
from lrrspm.serve.schemas import Limits
from lrrspm.serve.worker import Worker
from tests.conftest import draw


@pytest.fixture(scope="module")
def client(model_path):
    """Client of a server of the small model, shared by a module's tests."""
    worker = Worker(model_path, n_jobs=2)
    with TestClient(create_app(worker), base_url="http://127.0.0.1:8000") as client:
        yield client
    worker.workers.close()


@pytest.fixture
def worker(request, model_path):
    """Worker of a test's own, in threads that it can patch; its limits are the parameter."""
    return Worker(model_path, Limits(**getattr(request, "param", {})), n_jobs=2, isolated=False)


@pytest.fixture
def own_client(worker):
    """Client of that worker's server, which sees failures as other clients do."""
    with TestClient(
        create_app(worker), "http://localhost", raise_server_exceptions=False
    ) as client:
        yield client


@pytest.fixture(scope="session")
def image() -> bytes:
    """Image file of dots."""
    file = io.BytesIO()
    Image.fromarray(draw("dots", np.random.default_rng(7))).save(file, "PNG")
    return file.getvalue()


class FakeClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps ahead to the next timer instead of waiting for it.

    What threads do takes no time on this clock.
    """

    def __init__(self):
        self._now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self):
        return self._now


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        # The kernel takes a moment to hand over what another socket of this process has sent.
        events = super().select(None if timeout is None else min(timeout, 0.001))
        if not events and timeout is not None:
            self._loop._now += timeout
        return events
