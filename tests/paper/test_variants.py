"""Other ways to read and describe images."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from lrrspm import dense_sift
from lrrspm.paper.variants import FLAT, READERS, VARIANTS, vary
from tests.conftest import draw
from tests.paper.helpers import (
    BICUBIC,
    ENLARGED,
    small,
)

# The small sets made here are not the published ones.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not the published set")


def gray_of(features, path) -> Any:
    return features.read(path).gray


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_do_what_they_say(tmp_path, variant):
    path = tmp_path / "large.png"
    pixels = draw("slant", np.random.default_rng(0), 400)[:320]
    pixels[:100, :100] = 128
    Image.fromarray(pixels).save(path)
    plain = small().codebook_features(None)
    varied = vary(plain, variant)
    gray = gray_of(varied, path)
    if variant == FLAT:
        described = varied.new_channels()[0].descriptor.describe(gray)
        norms = np.linalg.norm(described.values, axis=1)
        assert norms[norms > 0] == pytest.approx(1, abs=1e-5)
        usual = np.linalg.norm(dense_sift(gray_of(plain, path)).values, axis=1)
        assert 0 < usual[usual > 0].min() < 0.9
        return
    assert gray.shape == ((200, 200) if "200 x 200" in variant else (240, 300))
    others = [gray_of(vary(plain, other), path) for other in READERS if other != variant]
    others.append(gray_of(plain, path))
    same = [np.array_equal(gray, other) for other in others]
    # For a large image, Pillow's bicubic and "enlarged" do the same.
    assert sum(same) == (variant in (BICUBIC, ENLARGED))


@pytest.mark.parametrize("enlarged", [False, True])
def test_small_images_keep_their_size_unless_enlarged(root, enlarged):
    path = next((root / "COIL20").rglob("*.png"))
    varied = vary(small().codebook_features(None), ENLARGED if enlarged else BICUBIC)
    assert gray_of(varied, path).shape == ((300, 300) if enlarged else (32, 32))


def test_unknown_variant():
    with pytest.raises(ValueError, match="no variant 'upside down'"):
        vary(small().codebook_features(None), "upside down")
