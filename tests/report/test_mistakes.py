"""Mistakes in reports: the image, and the evidence for the predicted and for the true class."""

import base64
import io
import os
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm._support.text import percent
from lrrspm.evaluation.mistakes import find_mistakes
from lrrspm.evaluation.results import Evaluation, count_confusions
from lrrspm.images import read_thumbnail
from lrrspm.report.mistakes import SIDE, show
from tests.conftest import mixed_up
from tests.report.reports import report


def evaluation_of(folder):
    """Train on every other image of a folder, and test on the rest."""
    paths, labels = find_images(folder)
    classifier = ImageClassifier(LRREncoder(codebook_size=8), n_samples=500, random_state=0)
    classifier.fit(paths[::2], labels[::2])
    truth, scores = np.array(labels[1::2]), classifier.decision_function(paths[1::2])
    names = classifier.classes_.tolist()
    confusion = count_confusions(names, truth, classifier.predict(paths[1::2]))
    mistakes = find_mistakes(classifier, paths[1::2], truth, scores)
    return Evaluation(names, [confusion], len(paths), mistakes=mistakes)


@pytest.fixture(scope="module")
def mixed(pictures, tmp_path_factory):
    return mixed_up(pictures, tmp_path_factory.mktemp("mixed") / "set")


@pytest.fixture(scope="module")
def evaluation(mixed):
    found = evaluation_of(mixed)
    assert len(found.mistakes) > 1
    return found


def test_every_mistake_is_shown_with_probabilities_and_evidence(evaluation):
    page = report(evaluation)
    images = page.named("img")
    assert len(images) == 3 * len(evaluation.mistakes)
    assert all(image["src"].startswith("data:image/jpeg;base64,") for image in images)
    assert f"{len(evaluation.mistakes)} test images whose predicted class was" in page.text
    for place, mistake in enumerate(evaluation.mistakes):
        (chances,) = mistake.model.predict_proba([mistake.path])
        names = mistake.model.classes_.tolist()
        wrong, right = (chances[names.index(n)] for n in (mistake.predicted, mistake.label))
        assert f"{mistake.label} confused with {mistake.predicted}" in page.text
        assert f"for {mistake.predicted} {percent(wrong)}" in page.text
        assert f"for {mistake.label} {percent(right)}" in page.text
        assert [image["alt"] for image in images[3 * place : 3 * place + 3]] == [
            "the image", f"evidence for {mistake.predicted}", f"evidence for {mistake.label}"
        ]  # fmt: skip
    places = [page.text.index(mistake.path) for mistake in evaluation.mistakes]
    assert places == sorted(places)
    assert "; split" not in page.text


def test_mistakes_of_several_splits_say_which(evaluation):
    mistakes = [m._replace(split=place) for place, m in enumerate(evaluation.mistakes[:2], 1)]
    several = Evaluation(
        evaluation.class_names, evaluation.confusions * 2, evaluation.images,
        {"encode": 1.0, "train": 1.0, "test": 1.0}, mistakes,
    )  # fmt: skip
    page = report(several)
    assert re.findall(r"; split (\d)", page.text) == ["1", "2"]


def test_maps_are_those_of_the_predicted_and_the_true_class(evaluation):
    mistake = evaluation.mistakes[0]
    shown = show(mistake)
    contents = [base64.b64decode(shown[n].split(",")[1]) for n in ("image", "wrong", "right")]
    plain, wrong, right = (np.asarray(Image.open(io.BytesIO(c)), float) for c in contents)
    assert np.abs(plain - np.asarray(read_thumbnail(mistake.path, SIDE), float)).mean() < 8
    examined = mistake.model.examine(mistake.path)
    maps = [examined.explain(name).map for name in (mistake.predicted, mistake.label)]
    for image, map, other in ((wrong, *maps), (right, *maps[::-1])):
        # Blue speaks for a class, orange against it.
        tint = (image[..., 2] - image[..., 0]).ravel()
        like = np.corrcoef(tint, map.ravel())[0, 1]
        assert like > 0.8
        assert like > np.corrcoef(tint, other.ravel())[0, 1] + 0.3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_two_classes_have_one_map_in_two_colors(mixed, tmp_path, n_classes):
    for kind in ("across", "along", "dots")[:n_classes]:
        shutil.copytree(mixed / kind, tmp_path / "set" / kind)
    page = report(evaluation_of(tmp_path / "set"))
    assert page.named("img")
    said = "the second map is the first with the colors swapped" in page.text
    assert said == (n_classes == 2)


def test_image_that_has_gone(mixed, tmp_path):
    shutil.copytree(mixed, tmp_path / "set")
    evaluation = evaluation_of(tmp_path / "set")
    os.unlink(evaluation.mistakes[0].path)
    page = report(evaluation)
    assert page.text.count("The image can no longer be shown: ") == 1
    assert len(page.named("img")) == 3 * (len(evaluation.mistakes) - 1)
