"""The numbers behind results, as the version of the code in ``settings.CODE`` computes them.

If one of these fails because a change gives other numbers on purpose, raise ``CODE``, so that
older results are named as such, and pin the new numbers. They hold on any processor: tolerances
are above what other kernels of BLAS change, and below what would change an accuracy.
"""

import json

import numpy as np
import pytest

from lrrspm._support.stages import Stages
from lrrspm.encoders import learn_codebook
from lrrspm.evaluation import split_by_class
from lrrspm.methods import METHODS
from lrrspm.paper import report, results
from lrrspm.paper.experiments import Options
from lrrspm.paper.results import Results
from lrrspm.paper.settings import CODE, Setting
from lrrspm.pipeline import fit_features, open_engine
from tests.conftest import draw
from tests.paper.helpers import SECONDS, invoke, small

# Of each method: its vectors times cosines, and the scores of three images times 1, 2, 3.
NUMBERS = {
    "LrrSPM": (1.19389, [-3.7391, -2.0415, -2.1047]),
    "LinearBOF": (1.99468, [-6.5160, -1.2575, -1.3886]),
    "KernelBOF": (1.47114, [-2.2522, -1.5208, -1.1523]),
    "LinearSPM": (0.23630, [-6.2324, -1.4678, -1.6615]),
    "KernelSPM": (0.04656, [-2.8224, -1.6464, -1.5480]),
    "ScSPM": (-0.11187, [-1.6783, -1.8832, -1.0270]),
    "LLC": (1.72263, [-2.8624, -1.8286, -1.1514]),
}
# The descriptors that a codebook is learned from: their sum, and times cosines.
SAMPLED = (569.945, 1.5135)


@pytest.mark.parametrize("method", METHODS)
def test_vectors_and_scores(method):
    rng = np.random.default_rng(0)
    kinds = ["across", "along", "dots"] * 4
    images = [draw(kind, rng) for kind in kinds]
    codebook = rng.random((16, 128)).astype(np.float32) * 0.2
    setting = Setting("OT", 4, method=method, codebook_size=16)
    vectors = setting.features(1, codebook).transform(images)
    total, scores = NUMBERS[method]
    assert (vectors @ np.cos(np.arange(vectors.shape[1]))).sum() == pytest.approx(total, abs=1e-4)
    svm = setting.classifier(1).new_svm().fit(vectors[:9], np.array(kinds[:9]))
    assert svm.decision_function(vectors[9:]) @ [1, 2, 3] == pytest.approx(scores, abs=5e-3)


def test_splits():
    labels = np.repeat(["a", "b"], 6)
    seeds = [Setting("OT", 2, split).split_seed for split in (0, 1)]
    assert seeds == [1484405855, 1838574579]
    drawn = [split_by_class(labels, 2, seed).tolist() for seed in seeds]
    assert drawn == [[0, 3, 7, 8], [0, 4, 7, 9]]


def test_codebook():
    # Whole numbers with a mean of 0: the first distances have no rounding errors anywhere.
    half = np.random.default_rng(0).integers(0, 8, (200, 4)).astype(np.float32)
    values = np.concatenate([half, -half])
    atoms = learn_codebook(values, 8, 0)
    distances = ((values[:, None] - atoms) ** 2).sum(axis=2).min(axis=1)
    assert distances.sum() == pytest.approx(4836.10, abs=0.05)


def test_rows_name_their_code_and_older_ones_are_named(root, tmp_path, monkeypatch):
    computed = Results(tmp_path)
    options = Options(splits=1, methods=("LrrSPM",))
    (setting,) = options.over_splits(options.setting("OT", 100))
    content = {"accuracy": 85.0, "overall": 85.0, "per_class": {}, "images": 2688, "wall": 1.0}
    computed.add_row(setting, **content, seconds=SECONDS)
    (environment,) = computed.environments.values()
    assert environment["code"] == CODE
    assert len(environment["commit"]) >= 4
    assert report.say_outdated(computed, computed.rows([setting])) == ""
    monkeypatch.setattr(results, "CODE", CODE + 1)
    monkeypatch.setattr(report, "CODE", CODE + 1)
    said = report.say_outdated(computed, computed.rows([setting]))
    assert said.startswith(
        f"Older than the code: 1 of 1 result, of version {CODE} (now {CODE + 1})"
    )
    done = invoke("statistics", "--splits", "1", root=root, folder=tmp_path)
    assert f"version {CODE} (now {CODE + 1})" in done.stderr


def test_rows_without_a_version_are_of_the_first(tmp_path):
    computed = Results(tmp_path)
    computed.add_row(small(), accuracy=1.0)
    lines = [json.loads(line) for line in computed.path.read_text().splitlines()]
    assert lines[0].pop("code") == CODE
    computed.environments[lines[0]["key"]].pop("code")
    assert computed.code(computed.records[small().key]) == 1


def test_sampled_descriptors(image_folder):
    # As many atoms as samples: the codebook is the sample itself.
    paths = [str(path) for path in sorted(image_folder.rglob("*.png"))]
    features = Setting("OT", 4, codebook_size=72, n_samples=72).codebook_features(1)
    with open_engine(1) as engine:
        fit_features([features], paths, [np.arange(36)], engine, Stages())
    atoms = features.channels_[0].encoder_.codebook_
    assert atoms.shape == (72, 128)
    assert np.abs(atoms).sum() == pytest.approx(SAMPLED[0], abs=0.01)
    assert (atoms.sum(axis=0) @ np.cos(np.arange(128))) == pytest.approx(SAMPLED[1], abs=0.01)
