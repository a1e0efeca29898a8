"""Comparing data sets with the published ones."""

import os
import re
import shutil

import pytest

from lrrspm import find_images
from lrrspm.datasets import (
    DATASETS,
    load,
    verify,
)
from tests.datasets.archives import make_image, rewrite, states


def test_verify_names_missing_and_extra_images(root):
    shutil.rmtree(root / "LS" / "bedroom")
    os.remove(root / "LS" / "MITcoast" / "image_0002.jpg")
    (root / "LS" / "MITforest" / "mine.jpg").write_bytes(make_image(1, "jpg"))
    (root / "LS" / "beach").mkdir()
    (root / "LS" / "beach" / "1.jpg").write_bytes(make_image(2, "jpg"))
    report = verify("LS", root)
    assert not report.good
    assert report.equal is False
    assert states(report) == {
        "CALsuburb": "equal", "MITcoast": "too few", "MITforest": "too many",
        "bedroom": "missing", "industrial": "equal",
    }  # fmt: skip
    assert report.summary == [
        "no images of bedroom",
        "MITcoast has 2 images instead of 3; missing image_0002.jpg",
        "MITforest has 5 images instead of 4; extra mine.jpg",
    ]
    assert report.strays == [os.path.join("beach", "1.jpg")]


def test_verify_counts_where_names_follow_no_rule(root):
    os.remove(root / "YaleB" / "yaleB39" / "yaleB39_P00A+001E+00.pgm")
    report = verify("YaleB", root)
    assert report.summary == ["yaleB39 has 1 image instead of 2"]
    os.remove(root / "Caltech256" / "056.dog" / "056_0001.jpg")
    report = verify("Caltech256", root)
    assert not report.good
    assert report.equal is None
    assert report.summary == [f"7 images instead of {DATASETS['Caltech256'].images}"]


def test_verify_names_broken_files(root):
    file = root / "LS" / "bedroom" / "image_0003.jpg"
    file.write_bytes(file.read_bytes()[:-100])
    (root / "COIL20" / "obj1" / "obj1__0.png").write_bytes(b"not an image")
    report = verify("LS", root, n_jobs=2)
    name = os.path.join("bedroom", "image_0003.jpg")
    assert list(report.broken) == [name]
    assert states(report)["bedroom"] == "broken files"
    assert report.summary == [f"{name} cannot be used: {report.broken[name]}"]
    assert list(verify("COIL20", root).broken) == [os.path.join("obj1", "obj1__0.png")]


def test_verify_names_copies(root):
    one, two = (root / "LS" / "bedroom" / f"image_000{i}.jpg" for i in (1, 2))
    shutil.copy(one, two)
    report = verify("LS", root)
    names = [os.path.join("bedroom", f"image_000{i}.jpg") for i in (1, 2)]
    assert report.copies == [names]
    assert not report.good
    assert report.summary == ["bedroom: the right number of images, but not the published ones"]


def test_file_names_do_not_matter(root):
    bedroom = root / "LS" / "bedroom"
    (bedroom / "image_0001.jpg").rename(bedroom / "z.jpg")
    assert verify("LS", root).good


@pytest.mark.parametrize(
    ("name", "size", "form", "kind"),
    [
        ("LS", (5, 5), "JPEG", r"resized \(all 5 x 5\)"),
        ("LS", None, "GIF", "resized"),  # all small images have one size
        ("COIL20", (5, 5), "PNG", r"resized \(all 5 x 5\)"),
        ("COIL20", None, "JPEG", "re-encoded"),
    ],
)
def test_resized_and_re_encoded_copies_are_named(name, size, form, kind, root):
    rewrite(root / name, size, form)
    report = verify(name, root)
    assert not report.good
    assert set(states(report).values()) == {"other content"}
    assert re.match(f"a {kind}.* copy: .*the published number of images", report.summary[0])


def test_lossless_repacking_is_no_difference(root):
    rewrite(root / "COIL20", None, "BMP")
    assert verify("COIL20", root).good


def test_the_real_sets_equal_the_published_ones(data_dir):
    for name in ("LS", "OT", "FP", "YaleB", "COIL20"):
        report = verify(name, data_dir, n_jobs=-1)
        assert report.equal, report.summary
        assert len(load(name, data_dir)[0]) == DATASETS[name].images
        assert report.strays == []
    assert load("LS", data_dir) == find_images(data_dir / "LS")
    assert sum(len(group) - 1 for group in verify("LS", data_dir, n_jobs=-1).copies) == 18
