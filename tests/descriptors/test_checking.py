"""A descriptor that returns something wrong is named, with what it returned."""

import numpy as np
import pytest

from lrrspm import SIFT, Channel, ImageClassifier, LRREncoder
from lrrspm.descriptors import Projection
from tests.conftest import draw

WRONG = {
    "values": (lambda found: found._replace(values=found.values[:, :100]), "100 .* expected 128"),
    "flat": (lambda found: found._replace(values=found.values.ravel()), r"\(\d+,\), expected"),
    "list": (lambda found: found._replace(values=found.values.tolist()), r"\(\), expected"),
    "x": (lambda found: found._replace(x=found.x[1:]), r"x of shape \(\d+,\), expected \(\d+,\)"),
    "y": (lambda found: found._replace(y=found.y[:, None]), r"y of shape \(\d+, 1\), expected"),
    "size": (lambda found: found._replace(size=16), r"size of shape \(\), expected"),
    "tuple": (tuple, "tuple, expected LocalDescriptors"),
    "array": (lambda found: found.values, "ndarray, expected LocalDescriptors"),
    "nothing": (lambda found: None, "NoneType, expected LocalDescriptors"),
}


class Odd(SIFT):
    """SIFT whose result a test spoils."""

    spoil = staticmethod(lambda found: found)

    def describe(self, pixels):
        return type(self).spoil(super().describe(pixels))


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    return [draw(kind, rng) for kind in ("across", "dots") for _ in range(3)]


LABELS = ["a"] * 3 + ["b"] * 3


def model(projection=None):
    channel = Channel(LRREncoder(4), Odd(step=8), projection=projection)
    return ImageClassifier(channels=[channel], n_samples=300, random_state=0)


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_shapes_and_types_are_named(images, monkeypatch, kind):
    """By training, prediction and evidence."""
    fitted = model().fit(images, LABELS)
    spoil, message = WRONG[kind]
    monkeypatch.setattr(Odd, "spoil", staticmethod(spoil))
    for work in (
        lambda: model().fit(images, LABELS),
        lambda: model(Projection(8)).fit(images, LABELS),
        lambda: fitted.predict(images),
    ):
        with pytest.raises(ValueError, match=rf"^image 0: Odd\.describe returned .*{message}"):
            work()
    with pytest.raises(ValueError, match=rf"Odd\.describe returned .*{message}"):
        fitted.explain(images[0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("projection", [None, Projection(8)])
def test_no_codebook_is_learned_from_values_that_are_not_finite(
    images, monkeypatch, value, projection
):
    def spoil(found):
        found.values[-1, -1] = value
        return found

    monkeypatch.setattr(Odd, "spoil", staticmethod(spoil))
    with pytest.raises(ValueError, match=r"^image 0: Odd\.describe .* NaN or infinite"):
        model(projection).fit(images, LABELS)


def test_what_is_right_is_not_changed(images):
    plain = ImageClassifier(
        channels=[Channel(LRREncoder(4), SIFT(step=8))], n_samples=300, random_state=0
    )
    one, other = (made.fit(images, LABELS).decision_function(images) for made in (plain, model()))
    np.testing.assert_array_equal(one, other)
