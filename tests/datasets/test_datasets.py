"""Data sets: the catalogue, where they are, comparing them with what was published."""

import json
import os
import re
import shutil
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from lrrspm import find_images
from lrrspm.datasets import (
    DATASETS,
    add,
    data_root,
    fetch,
    find_dataset,
    load,
    locate,
    status,
    verify,
)
from lrrspm.datasets.catalogue import file_names, published
from tests.cli.test_cli import run
from tests.datasets.archives import MADE, picture, use_small_sets


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


def states(report) -> dict[str, str]:
    return {row.label: row.state for row in report.classes}


def test_the_nine_in_the_papers_order():
    assert list(DATASETS) == [
        "OT", "FP", "LS", "Caltech101", "Caltech256", "17flowers", "COIL20", "COIL100", "YaleB",
    ]  # fmt: skip
    assert find_dataset("coil20") is DATASETS["COIL20"]
    with pytest.raises(ValueError, match=r"'MNIST'; there are OT, FP, LS, .*YaleB"):
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


def test_manifests_are_package_data():
    found = {file.name for file in (files("lrrspm") / "manifests").iterdir()}
    assert found == {f"{d.manifest}.json" for d in DATASETS.values() if d.manifest}


def test_published_file_names():
    assert file_names(DATASETS["COIL100"])["obj7"][-1] == "obj7__355.png"
    assert file_names(DATASETS["COIL20"])["obj7"][-1] == "obj7__71.png"
    assert file_names(DATASETS["17flowers"])["02_Snowdrop"][0] == "image_0081.jpg"
    assert file_names(DATASETS["17flowers"])["17_Pansy"][-1] == "image_1360.jpg"
    assert file_names(DATASETS["LS"])["bedroom"][-1] == "image_0216.jpg"
    assert file_names(DATASETS["YaleB"]) == {}


def test_data_root(monkeypatch, tmp_path):
    monkeypatch.setenv("LRRSPM_DATA", "~/data")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root(tmp_path / "given") == tmp_path / "given"
    assert data_root() == tmp_path / "data"
    monkeypatch.setenv("LRRSPM_DATA", "")
    assert data_root().name == "lrrspm"
    assert data_root().is_absolute()


def test_load_takes_the_sets_classes_alone(root):
    assert load("LS", root) == find_images(root / "LS")
    paths, labels = load("OT", root)
    assert sorted(set(labels)) == ["MITcoast", "MITforest"]
    assert paths == sorted(paths)
    ambient = root / "YaleB" / "yaleB01" / "yaleB01_P00_Ambient.pgm"
    ambient.write_bytes(picture(1, "pgm"))
    assert str(ambient) not in load("YaleB", root)[0]
    assert verify("YaleB", root).good


def test_a_set_that_is_not_there_says_what_to_do(tmp_path):
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


def test_verify_names_what_is_missing_and_extra(root):
    shutil.rmtree(root / "LS" / "bedroom")
    os.remove(root / "LS" / "MITcoast" / "image_0002.jpg")
    (root / "LS" / "MITforest" / "mine.jpg").write_bytes(picture(1, "jpg"))
    (root / "LS" / "beach").mkdir()
    (root / "LS" / "beach" / "1.jpg").write_bytes(picture(2, "jpg"))
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
    assert report.summary == ["yaleB39 has 1 images instead of 2"]
    os.remove(root / "Caltech256" / "056.dog" / "056_0001.jpg")
    report = verify("Caltech256", root)
    assert not report.good
    assert report.equal is None
    assert report.summary == [f"7 images instead of {DATASETS['Caltech256'].images}"]


def test_verify_names_broken_files(root):
    file = root / "LS" / "bedroom" / "image_0003.jpg"
    file.write_bytes(file.read_bytes()[:-100])
    (root / "COIL20" / "obj1" / "obj1__0.png").write_bytes(b"not a picture")
    report = verify("LS", root, n_jobs=2)
    name = os.path.join("bedroom", "image_0003.jpg")
    assert list(report.broken) == [name]
    assert states(report)["bedroom"] == "broken files"
    assert report.summary == [f"{name} cannot be used: {report.broken[name]}"]
    assert "not an image of a known format" in verify("COIL20", root).summary[0]


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


def rewrite(folder: Path, size: tuple[int, int] | None, form: str) -> None:
    for path in folder.rglob("*.*"):
        image = Image.open(BytesIO(path.read_bytes()))
        out = BytesIO()
        (image.resize(size) if size else image).save(out, form)
        path.write_bytes(out.getvalue())


@pytest.mark.parametrize(
    ("name", "size", "form", "kind"),
    [
        ("LS", (5, 5), "JPEG", r"resized \(all 5 x 5\)"),
        ("LS", None, "GIF", "resized"),  # all made pictures have one size
        ("COIL20", (5, 5), "PNG", r"resized \(all 5 x 5\)"),
        ("COIL20", None, "JPEG", "re-encoded"),
    ],
)
def test_a_resized_or_re_encoded_copy_is_called_that(name, size, form, kind, root):
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


def test_add_uses_a_folder_where_it_is(root, tmp_path):
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


def test_add_recognises_classes_by_content(root, tmp_path):
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


def test_add_recognises_a_re_encoded_set_by_its_numbers(root, tmp_path):
    own = tmp_path / "own"
    for label in MADE["LS"].counts:
        shutil.copytree(root / "LS" / label, own / label[-3:])
    rewrite(own, (5, 5), "JPEG")
    place, wrong = add("LS", own, root)
    assert place.folders == {label[-3:]: label for label in MADE["LS"].counts}
    assert wrong == []
    assert verify("LS", root).summary[0].startswith("a resized (all 5 x 5) copy")
    shutil.copytree(own / "ast", own / "other")  # two folders with three pictures
    with pytest.raises(ValueError, match="looks like a class of LS"):
        add("LS", own, root)
    shutil.rmtree(own / "other")
    shutil.rmtree(own / "oom")  # four numbers of five may be chance
    with pytest.raises(ValueError, match="looks like a class of LS"):
        add("LS", own, root)


@pytest.mark.parametrize("name", ["COIL20", "COIL100", "17flowers"])
def test_add_takes_the_official_flat_folder(name, root, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for path, content in MADE[name].files.items():
        (flat / Path(path).name).write_bytes(content)
    assert add(name, flat, root)[1] == []
    assert verify(name, root).good


def test_add_refuses_what_is_something_else(root, tmp_path):
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


def test_a_damaged_note_is_named(root):
    for content in ("{", '{"LS": 3}', '["LS"]', '{"LS": {"folder": 1, "folders": {}}}'):
        (root / "added.json").write_text(content)
        with pytest.raises(ValueError, match=r"added\.json: not a list of added folders"):
            load("LS", root)


def test_command_lists(root):
    text = run("datasets", "--data-dir", root).stdout
    rows = {line.split()[0]: line for line in text.splitlines()[1:10]}
    assert list(rows) == list(DATASETS)
    assert rows["OT"].split()[1:4] == ["7", "2", "1"]
    assert "Oliva 2001" in rows["OT"]
    assert all("  complete" in row for row in rows.values())
    assert f"looked for in {root}" in text
    found = json.loads(run("datasets", "--data-dir", root, "--json").stdout)
    assert found["data_root"] == str(root)
    assert found["datasets"]["YaleB"]["complete"] is True
    assert found["datasets"]["YaleB"]["citation"] == DATASETS["YaleB"].citation
    shutil.rmtree(root / "LS" / "bedroom")
    shutil.rmtree(root / "COIL20")
    text = run("datasets", "list", "--data-dir", root).stdout
    assert "not complete: 10 images, 4 classes" in text
    assert re.search("COIL20 .* not there", text)


def test_command_info(root):
    text = run("datasets", "info", "ls", "--data-dir", root).stdout
    assert DATASETS["LS"].citation in text
    assert "md5:58828019197b2ad0a7efb472e7a85c2a" in text
    found = json.loads(run("datasets", "--json", "--data-dir", root, "info", "YaleB").stdout)
    assert found["checksum"] is None
    assert found["folder"] == str(root / "YaleB")


def test_command_verify(root):
    text = run("datasets", "verify", "LS", "--data-dir", root).stdout
    assert "complete, and every class equals the published one" in text
    text = run("datasets", "verify", "Caltech256", "--data-dir", root).stdout
    assert "the numbers are right; no digests are known" in text
    os.remove(root / "LS" / "bedroom" / "image_0002.jpg")
    shutil.copy(root / "LS" / "bedroom" / "image_0001.jpg", root / "LS" / "stray.jpg")
    result = run("datasets", "verify", "LS", "--data-dir", root, code=1)
    assert "bedroom has 4 images instead of 5; missing image_0002.jpg" in result.stdout
    assert "1 pictures belong to no class and are left out:\n  stray.jpg" in result.stdout
    assert result.stdout.endswith("not the published set\n")
    found = json.loads(run("datasets", "verify", "LS", "--data-dir", root, "--json", code=1).stdout)
    assert found["equal"] is False
    assert found["classes"][3] == {
        "label": "bedroom", "images": 4, "published": 5, "state": "too few",
        "missing": ["image_0002.jpg"], "extra": [],
    }  # fmt: skip
    assert "no data set is called 'x'" in run("datasets", "verify", "x", code=1).stderr


def test_command_add_and_fetch(root, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(root / "LS" / "bedroom", own / "00")
    text = run("datasets", "add", "LS", own, "--data-dir", root).stdout
    assert "00 is bedroom" in text
    assert "warning: no images of CALsuburb, MITcoast, MITforest, industrial" in text
    found = json.loads(run("datasets", "add", "LS", own, "--data-dir", root, "--json").stdout)
    assert found["renamed"] == {"00": "bedroom"}
    assert found["complete"] is False
    text = run("datasets", "fetch", "FP", "--data-dir", root).stdout
    assert f"{root / 'LS'}: was already there\nFP: complete" in text
    found = json.loads(run("datasets", "fetch", "LS", "--data-dir", root, "--json").stdout)
    assert found == {"name": "LS", "folder": str(root / "LS"), "fetched": False, "images": 15}
    os.remove(root / "LS" / "bedroom" / "image_0002.jpg")
    text = run("datasets", "fetch", "LS", "--data-dir", root).stdout
    assert f"to fetch it again, delete {root / 'LS'} first" in text


def test_the_page_has_the_catalogues_numbers():
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", page, re.MULTILINE))
    for name, dataset in DATASETS.items():
        cells = [cell.strip() for cell in rows[name].split("|")]
        numbers = (dataset.images, dataset.classes, dataset.megabytes)
        assert cells == [dataset.title, *map(str, numbers), dataset.terms]
        assert dataset.citation in " ".join(page.split())
