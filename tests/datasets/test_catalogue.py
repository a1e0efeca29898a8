"""The catalogue: facts, manifests, file names."""

import re
import zipfile
from importlib.resources import files

import pytest

from lrrspm.datasets import (
    DATASETS,
    find_dataset,
)
from lrrspm.datasets.catalogue import file_names, published
from tests.conftest import HERE


def test_nine_data_sets_in_the_papers_order():
    assert list(DATASETS) == [
        "OT", "FP", "LS", "Caltech101", "Caltech256", "17flowers", "COIL20", "COIL100", "YaleB",
    ]  # fmt: skip
    assert find_dataset("coil20") is DATASETS["COIL20"]
    with pytest.raises(ValueError, match=r"'MNIST'; choose from: OT, FP, LS, .*YaleB"):
        find_dataset("MNIST")


@pytest.mark.parametrize("name", DATASETS)
def test_catalogue_agrees_with_the_manifests(name):
    dataset = DATASETS[name]
    known = published(dataset)
    if name == "Caltech256":
        assert known == {}
    else:
        assert len(known) == dataset.classes
        assert sum(c.images for c in known.values()) == dataset.images
        assert all(re.fullmatch(r"[0-9a-f]{64}", c.sha256) for c in known.values())
    assert (dataset.archive is None) == (dataset.part_of is not None) == (name in ("OT", "FP"))
    if dataset.archive is not None:
        lengths = {"md5": 32, "sha256": 64}
        if dataset.archive.checksum is not None:
            algorithm, digest = dataset.archive.checksum.split(":")
            assert re.fullmatch(r"[0-9a-f]+", digest)
            assert len(digest) == lengths[algorithm]
        assert re.match(r"\w[\w.-]*/[\w.-]+: \S+", dataset.archive.source)
    assert re.fullmatch(r"[A-Z][\w-]+ (19|20)\d\d", dataset.reference)


MANIFESTS = {f"{d.manifest}.json" for d in DATASETS.values() if d.manifest}


def test_manifests_are_package_data():
    found = {file.name for file in (files("lrrspm.datasets") / "manifests").iterdir()}
    assert found == MANIFESTS


def test_a_wheel_contains_the_data_files(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel")
    (built,) = wheel.WheelBuilder(str(HERE.parent)).build(directory=str(tmp_path))
    with zipfile.ZipFile(built) as archive:
        found = set(archive.namelist())
    expected = {f"lrrspm/datasets/manifests/{name}" for name in MANIFESTS}
    expected |= {"lrrspm/datasets/catalogue.toml", "lrrspm/paper/published.json"}
    assert expected <= found


def test_published_file_names():
    assert file_names(DATASETS["COIL100"])["obj7"][-1] == "obj7__355.png"
    assert file_names(DATASETS["COIL20"])["obj7"][-1] == "obj7__71.png"
    assert file_names(DATASETS["17flowers"])["02_Snowdrop"][0] == "image_0081.jpg"
    assert file_names(DATASETS["17flowers"])["17_Pansy"][-1] == "image_1360.jpg"
    assert file_names(DATASETS["LS"])["bedroom"][-1] == "image_0216.jpg"
    assert file_names(DATASETS["YaleB"]) == {}


def test_the_docs_agree_with_the_catalogue():
    page = (HERE.parent / "docs" / "datasets.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", page, re.MULTILINE))
    for name, dataset in DATASETS.items():
        cells = [cell.strip() for cell in rows[name].split("|")]
        numbers = (dataset.images, dataset.classes, dataset.megabytes)
        assert cells == [dataset.title, *map(str, numbers), dataset.terms]
        assert dataset.citation in " ".join(page.split())
