"""Where data sets are: the data root, added folders, counts."""

import os
import shutil
from pathlib import Path

import pytest

from lrrspm import find_images
from lrrspm.datasets import (
    add,
    data_root,
    fetch,
    load,
    locate,
    status,
    verify,
)
from tests.datasets.archives import MADE, make_image, rewrite, states


def test_data_root(monkeypatch, tmp_path):
    monkeypatch.setenv("LRRSPM_DATA", "~/data")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root(tmp_path / "given") == tmp_path / "given"
    assert data_root() == tmp_path / "data"
    monkeypatch.setenv("LRRSPM_DATA", "")
    assert data_root().name == "lrrspm"
    assert data_root().is_absolute()


def test_load_returns_only_classes_of_the_set(root):
    assert load("LS", root) == find_images(root / "LS")
    paths, labels = load("OT", root)
    assert sorted(set(labels)) == ["MITcoast", "MITforest"]
    assert paths == sorted(paths)
    ambient = root / "YaleB" / "yaleB01" / "yaleB01_P00_Ambient.pgm"
    ambient.write_bytes(make_image(1, "pgm"))
    assert str(ambient) not in load("YaleB", root)[0]
    assert verify("YaleB", root).good


def test_a_missing_set_says_how_to_get_it(tmp_path):
    assert locate("OT", tmp_path) is None
    for call in (load, verify):
        with pytest.raises(FileNotFoundError, match=r"LS: no data set OT; .*fetch OT'.*add OT DIR"):
            call("OT", tmp_path)
    (tmp_path / "COIL20" / "empty").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="no data set COIL20"):
        load("COIL20", tmp_path)


def test_status_counts(root):
    found = status("OT", root)
    assert (found.there, found.complete, found.images, found.classes) == (True, True, 7, 2)
    assert found.folder == root / "LS"
    os.remove(root / "LS" / "MITcoast" / "image_0001.jpg")
    assert not status("OT", root).complete
    assert status("Caltech256", root).complete
    shutil.rmtree(root / "Caltech256" / "257.clutter")
    assert not status("Caltech256", root).complete
    shutil.rmtree(root / "COIL20")
    assert not status("COIL20", root).there


def test_add_leaves_the_folder_in_place(root, tmp_path):
    own = tmp_path / "my scenes"
    shutil.move(root / "LS", own)
    assert locate("LS", root) is None
    place, wrong = add("LS", own, root)
    assert (place.folders, wrong) == ({}, [])
    assert locate("OT", root) == own
    assert status("LS", root).added
    assert verify("FP", root).good
    own.rename(tmp_path / "gone")
    assert not status("LS", root).there
    with pytest.raises(FileNotFoundError, match="my scenes: no data set LS"):
        load("LS", root)


def test_add_recognizes_classes_by_content(root, tmp_path):
    own = tmp_path / "15-Scene"
    for number, label in enumerate(["bedroom", "CALsuburb", "MITcoast", "MITforest"]):
        (own / "Train" / f"{number:02}").mkdir(parents=True)
        (own / "Test" / f"{number:02}").mkdir(parents=True)
        for i, path in enumerate(sorted((root / "LS" / label).iterdir())):
            half = "Train" if i % 2 else "Test"
            shutil.copy(path, own / half / f"{number:02}" / f"{i}.jpg")
    place, wrong = add("LS", own, root)
    assert place.folders == {
        "00": "bedroom", "01": "CALsuburb", "02": "MITcoast", "03": "MITforest",
    }  # fmt: skip
    assert wrong == ["no images of industrial"]
    assert states(verify("LS", root))["bedroom"] == "equal"
    labels = load("LS", root)[1]
    assert labels == sorted(labels)
    assert labels.count("bedroom") == 5


def test_add_recognizes_a_re_encoded_set_by_its_counts(root, tmp_path):
    own = tmp_path / "own"
    for label in MADE["LS"].counts:
        shutil.copytree(root / "LS" / label, own / label[-3:])
    rewrite(own, (5, 5), "JPEG")
    place, wrong = add("LS", own, root)
    assert place.folders == {label[-3:]: label for label in MADE["LS"].counts}
    assert wrong == []
    assert verify("LS", root).summary[0].startswith("a resized (all 5 x 5) copy")
    shutil.copytree(own / "ast", own / "other")  # two folders with three images
    with pytest.raises(ValueError, match="looks like a class of LS"):
        add("LS", own, root)
    shutil.rmtree(own / "other")
    shutil.rmtree(own / "oom")  # four counts of five may be chance
    with pytest.raises(ValueError, match="looks like a class of LS"):
        add("LS", own, root)


@pytest.mark.parametrize("name", ["COIL20", "COIL100", "17flowers"])
def test_add_accepts_the_official_flat_folder(name, root, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for path, content in MADE[name].files.items():
        (flat / Path(path).name).write_bytes(content)
    assert add(name, flat, root)[1] == []
    assert verify(name, root).good


def test_add_refuses_other_folders(root, tmp_path):
    with pytest.raises(ValueError, match="looks like a class of COIL20; expected folders such"):
        add("COIL20", root / "LS", root)
    with pytest.raises(ValueError, match=r"such as 001\.ak47"):
        add("Caltech256", root / "LS", root)
    with pytest.raises(NotADirectoryError, match="nothing: no such folder"):
        add("LS", tmp_path / "nothing", root)
    assert not (root / "added.json").exists()


def test_a_part_can_be_added_alone_and_fetch_forgets(root, tmp_path):
    own = tmp_path / "outdoor"
    for label in ("MITcoast", "MITforest"):
        shutil.copytree(root / "LS" / label, own / label)
    add("OT", own, root)
    add("LS", own, root)
    assert locate("OT", root) == locate("LS", root) == own
    assert fetch("LS", root) == root / "LS"
    assert locate("LS", root) == root / "LS"
    assert locate("OT", root) == own


def test_a_damaged_list_of_added_folders_is_named(root):
    for content in ("{", '{"LS": 3}', '["LS"]', '{"LS": {"folder": 1, "folders": {}}}'):
        (root / "added.json").write_text(content)
        with pytest.raises(ValueError, match=r"added\.json: not a list of added folders"):
            load("LS", root)
