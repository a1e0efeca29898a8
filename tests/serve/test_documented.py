"""docs/serving.md has the limits and constants of the code."""

import re

import pytest

from lrrspm import config
from lrrspm.serve import connection, middleware, model, processes, runner
from tests.conftest import HERE

DOCUMENT = HERE.parent / "docs" / "serving.md"


def test_documented_limits():
    text = DOCUMENT.read_text()
    documented = dict(re.findall(r"\| `--max-([a-z-]+)` \| (\d+) \|", text))
    assert {name: int(value) for name, value in documented.items()} == {
        "files": config.SERVE_FILES,
        "file-mb": config.SERVE_FILE_MB,
        "request-mb": config.SERVE_REQUEST_MB,
        "waiting": config.SERVE_WAITING,
        "seconds": config.SERVE_SECONDS,
    }


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (r"headers must arrive within (\d+) seconds", connection._HEADER_SECONDS),
        (r"after the first (\d+) seconds", middleware._GRACE_SECONDS),
        (r"needs at least (\d+) kB per second after the", middleware._MIN_RATE / 1000),
        (r"dropped after (\d+) seconds", runner._STALL_SECONDS),
        (r"raises this limit to (\d+)", connection._OPEN_FILES),
        (r"reads (\d+) uploads at a time", middleware._UPLOADS),
        (r"at least (\d+) kB per second after 2 seconds", middleware._BUSY_RATE / 1000),
        (r"kB per second after (\d+) seconds", middleware._BUSY_GRACE_SECONDS),
        (r"(\d+) MB of memory", processes.MEMORY_BYTES / 1e6),
        (r"(\d+) seconds of CPU time", processes.CPU_SECONDS),
        (r"(\d+) seconds more than that of wall-clock time", processes.ANSWER_SECONDS),
        (r"has (\d+) seconds to load the model", processes.LOAD_SECONDS),
        (r"to load the model and (\d+) to fork", processes.FORK_SECONDS),
        (r"or (\d+) x \d+ for a model without `max_side`", model._LARGE_SIDE),
        (r"Requests have (\d+) seconds to finish", runner._SHUTDOWN_SECONDS),
        (r"exits without it (\d+) seconds after the signal", runner._EXIT_SECONDS),
    ],
)
def test_documented_constants(words, value):
    text = " ".join(DOCUMENT.read_text().split())
    assert [float(found) for found in re.findall(words, text)] == [value]
