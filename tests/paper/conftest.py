"""A small data set, and results computed from it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lrrspm.methods import METHODS
from lrrspm.paper import runner
from lrrspm.paper.results import Results
from lrrspm.paper.settings import TRAINING_IMAGES
from tests.conftest import draw
from tests.paper.helpers import (
    VIEWS,
    invoke,
    small,
)


@pytest.fixture(scope="session")
def root(tmp_path_factory) -> Path:
    """A data root with a small COIL20: three objects, twelve views, one of them a copy."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for number, kind in enumerate(("across", "along", "dots"), start=1):
        folder = root / "COIL20" / f"obj{number}"
        folder.mkdir(parents=True)
        views = [draw(kind, rng, 32) for _ in range(VIEWS)]
        views[1] = views[0]
        for view, pixels in enumerate(views):
            Image.fromarray(pixels).save(folder / f"obj{number}__{view}.png")
    return root


@pytest.fixture(scope="session")
def computed(root, tmp_path_factory) -> Results:
    """Two splits of each method, and LrrSPM with a codebook per split."""
    results = Results(tmp_path_factory.mktemp("results"))
    settings = [small(split, method=method) for method in METHODS for split in (0, 1)]
    settings += [small(split, codebook=TRAINING_IMAGES) for split in (0, 1)]
    runner.run(settings, results, root, n_jobs=2)
    return results


@pytest.fixture(scope="session")
def quick(root, tmp_path_factory) -> Path:
    """Results of a quick run of everything the small COIL20 allows."""
    folder = tmp_path_factory.mktemp("quick")
    done = invoke("all", "--quick", root=root, folder=folder)
    assert done.exit_code == 0, done.output
    return folder
