import os

import pytest
from PIL import Image

from lrrspm import find_images, read_image
from lrrspm.images import ImageError, expand_paths


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4)).save(path)


def test_find_images(tmp_path):
    make(tmp_path, "b/2.png", "b/1.JPG", "a/sub/3.png", ".hidden/4.png", "a/.5.png", "6.png")
    (tmp_path / "a" / "notes.txt").write_text("no image")
    with pytest.warns(UserWarning, match="ignored 1 image outside the class folders"):
        paths, labels = find_images(tmp_path)
    assert labels == ["a", "b", "b"]
    assert [os.path.relpath(p, tmp_path) for p in paths] == ["a/sub/3.png", "b/1.JPG", "b/2.png"]


def test_empty_classes_are_ignored_with_a_warning(tmp_path):
    make(tmp_path, "a/1.png")
    (tmp_path / "empty").mkdir()
    with pytest.warns(UserWarning, match="without images: empty"):
        assert find_images(tmp_path)[1] == ["a"]


def test_links_are_followed_and_loops_end(tmp_path):
    make(tmp_path, "store/x/1.png", "root/a/2.png")
    root = tmp_path / "root"
    (root / "b").symlink_to(tmp_path / "store" / "x")
    (root / "a" / "3.png").symlink_to(tmp_path / "store" / "x" / "1.png")
    (root / "a" / "loop").symlink_to(root / "a")
    paths, labels = find_images(root)
    assert labels == ["a", "a", "b"]
    assert [os.path.basename(p) for p in paths] == ["2.png", "3.png", "1.png"]


def test_csv(tmp_path):
    make(tmp_path, "x/1.png", "y/2.png")
    table = tmp_path / "list.csv"
    table.write_text("path,label\nx/1.png,cat\n\ny/2.png,ape\n")
    paths, labels = find_images(table)
    assert labels == ["ape", "cat"]
    assert paths == [str(tmp_path / "y/2.png"), str(tmp_path / "x/1.png")]
    table.write_text("x/1.png,cat\ny/2.png\n")
    with pytest.raises(ValueError, match="line 2: expected 'path,label'"):
        find_images(table)


def test_csv_of_odd_names(tmp_path):
    names = [" lead.png", "trail.png ", "plain.png", os.fsdecode(b"\xff.png"), "two words.png"]
    for name in names:
        (tmp_path / name).touch()
    rows = "".join(f"{name},cat\n" for name in names).replace("plain.png,", " plain.png ,")
    (tmp_path / "list.csv").write_bytes(os.fsencode(rows))
    paths, _ = find_images(tmp_path / "list.csv")
    assert sorted(paths) == sorted(str(tmp_path / name) for name in names)


def test_a_pipe_is_not_read_as_csv(tmp_path):
    os.mkfifo(tmp_path / "list.csv")
    assert expand_paths([tmp_path / "list.csv"]) == [str(tmp_path / "list.csv")]


def test_files_that_are_not_csv(tmp_path):
    make(tmp_path, "1.png")
    with pytest.raises(ValueError, match=r"1\.png: an image; give the folder"):
        find_images(tmp_path / "1.png")
    (tmp_path / "1.dat").write_bytes(b"a\0b")
    with pytest.raises(ValueError, match="neither a folder of class folders nor a CSV"):
        find_images(tmp_path / "1.dat")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="no path,label rows"):
        find_images(tmp_path / "empty.csv")


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        find_images(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no class folders"):
        find_images(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="no images in its class folders"):
        find_images(tmp_path)


def test_expand_paths(tmp_path):
    make(tmp_path, "d/1.png", "d/e/2.png", "3.png")
    found = expand_paths([tmp_path / "3.png", tmp_path / "d", "missing.png"])
    assert found == [
        str(tmp_path / "3.png"),
        str(tmp_path / "d/1.png"),
        str(tmp_path / "d/e/2.png"),
        "missing.png",
    ]
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.csv").write_text("3.png,a\n")
    assert expand_paths([tmp_path / "empty"]) == [str(tmp_path / "empty")]
    assert expand_paths([tmp_path / "list.csv"]) == [str(tmp_path / "3.png")]
    with pytest.raises(ImageError, match="a folder without images"):
        read_image(tmp_path / "empty")


def test_a_nul_character_in_a_csv_file_is_named_with_its_line(tmp_path):
    for rows in (1, 1000):  # near the beginning, and far behind
        (tmp_path / "a.csv").write_bytes(b"a.jpg,cat\n" * rows + b"b\0.jpg,dog\n")
        with pytest.raises(ValueError, match=rf"a\.csv, line {rows + 1}: a NUL character"):
            find_images(tmp_path / "a.csv")
