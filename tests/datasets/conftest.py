"""A data root with small made copies of every set."""

from pathlib import Path

import pytest

from tests.datasets.archives import MADE, running_server, use_small_sets


@pytest.fixture
def root(monkeypatch, tmp_path) -> Path:
    """A data root with every made set in our layout."""
    use_small_sets(monkeypatch)
    for name, made in MADE.items():
        for path, content in made.files.items():
            file = tmp_path / "root" / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return tmp_path / "root"


@pytest.fixture
def server(monkeypatch):
    use_small_sets(monkeypatch)
    monkeypatch.setattr("lrrspm.datasets.download._PAUSE", 0)
    with running_server() as running:
        yield running
