"""Classes with few images: weights, thresholds, and what the command says."""

import numpy as np
import pytest
from PIL import Image

from lrrspm import ImageClassifier, evaluation
from lrrspm.pipeline import open_engine
from lrrspm.svm import stratified_folds
from tests.cli.test_cli import run
from tests.conftest import draw


def vectors(counts, seed):
    """Overlapping classes in many dimensions: margins are hard, and rare classes get lost."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(y), 400)).astype(np.float32)
    X[np.arange(len(y)), y] += 4
    X[:, -1] += 20  # what all images share
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


@pytest.mark.parametrize("counts", [(100, 10), (100, 100, 10)])
def test_balanced_weights_find_a_rare_class(counts):
    X, y = vectors(counts, 0)
    tested, truth = vectors([100] * len(counts), 1)
    rare = truth == len(counts) - 1
    recalls = {}
    with open_engine(1) as engine:
        for weight in (None, "balanced"):
            model = ImageClassifier(random_state=0, class_weight=weight)
            scores = model.fit_svm(X, y, engine, stratified_folds(y, 0))
            assert scores is not None
            found = model.svm_.predict(tested) == truth
            recalls[weight] = found[rare].mean(), found.mean()
    assert recalls[None][0] < 0.3
    assert recalls["balanced"][0] > 0.7
    assert recalls["balanced"][1] > recalls[None][1]


def test_weights_of_one_per_class_change_nothing_but_thresholds():
    X, y = vectors((30, 30, 30), 0)
    with open_engine(1) as engine:
        plain = ImageClassifier(random_state=0)
        weighted = ImageClassifier(random_state=0, class_weight={0: 1.0})
        for model in (plain, weighted):
            model.fit_svm(X, y, engine, stratified_folds(y, 0))
    np.testing.assert_array_equal(plain.svm_.coef_, weighted.svm_.coef_)


def test_train_warns_of_a_rare_class(tmp_path):
    rng = np.random.default_rng(0)
    for name, count in (("across", 12), ("along", 12), ("other", 4)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(count):
            # The rare class looks like one of the others.
            kind = "along" if name == "other" else name
            Image.fromarray(draw(kind, rng)).save(tmp_path / "set" / name / f"{i}.png")
    done = run("train", tmp_path / "set", "-o", tmp_path / "m", "--method", "fast")
    assert "class other has 4 images, others about 12" in done.stderr
    assert "--class-weight balanced" in done.stderr
    done = run(
        "train", tmp_path / "set", "-o", tmp_path / "m", "--method", "fast",
        "--class-weight", "balanced", "--json",
    )  # fmt: skip
    assert '"per_class"' in done.stdout
    for wrong in ("fair", "other=0", "other=x", "=2=", "balanced=nan"):
        done = run("train", tmp_path / "set", "-o", tmp_path / "m", "--class-weight", wrong, code=2)
        assert "--class-weight" in done.stderr


def test_evaluate_takes_class_weights(image_folder, monkeypatch):
    """They come with thresholds, as in train."""
    seen = []

    def capture(paths, labels, classifiers, *_, calibrate, **__):
        seen.append((classifiers[0].class_weight, calibrate))
        raise ValueError("enough")

    monkeypatch.setattr(evaluation, "evaluate_all", capture)
    for more in ((), ("balanced",), ("dots=5",)):
        options = [part for value in more for part in ("--class-weight", value)]
        run("evaluate", image_folder, *options, code=1)
    assert seen == [(None, False), ("balanced", True), ({"dots": 5.0}, True)]
    run("evaluate", image_folder, "--class-weight", "fair", code=2)
