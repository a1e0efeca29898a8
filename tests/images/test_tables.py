"""CSV files as people have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrrspm import find_images
from lrrspm.images import expand_paths
from lrrspm.images.tables import read_table


def pairs(table, **columns):
    paths, labels = find_images(table, **columns)
    return [(path.rpartition("/")[2], label) for path, label in zip(paths, labels, strict=True)]


EXPECTED = [("1.png", "ape"), ("2.png", "cat")]


@pytest.mark.parametrize(
    "content",
    [
        "path,label\n1.png,ape\n2.png,cat\n",
        "Label;Filename\nape;1.png\ncat;2.png\n",
        "id\timage_path\tspecies\n7\t1.png\tape\n8\t2.png\tcat\n",
        "\n\nwidth,File Name,height,Class-Name\n3,1.png,4,ape\n\n3,2.png,4,cat\n",
        "\ufeffimage,label,\n1.png,ape,\n2.png,cat,\n",
        "file,Tierart\n1.png,ape\n2.png,cat\n",
        "breed,Bild\nape,1.png\ncat,2.png\n",
        "1.png;ape\n2.png;cat\n",
        '"name","label"\n"1.png","ape"\n"2.png","cat"\n',
    ],
)
def test_columns_are_found(tmp_path, content):
    (tmp_path / "list.csv").write_text(content, encoding="utf-8")
    assert pairs(tmp_path / "list.csv") == EXPECTED


def test_a_tsv_file_is_split_at_tabs_where_that_is_not_clear(tmp_path):
    (tmp_path / "list.tsv").write_text("a, b.png\tcat\n")
    assert pairs(tmp_path / "list.tsv") == [("a, b.png", "cat")]


def test_columns_are_chosen(tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("path,label,Bild,Klasse\nx.png,no,1.png,ape\nx.png,no,2.png,cat\n")
    assert pairs(table, path_column="bild", label_column="Klasse") == EXPECTED
    assert pairs(table, label_column="Klasse") == [("x.png", "ape"), ("x.png", "cat")]
    assert expand_paths([table], "Bild")[0] == str(tmp_path / "1.png")
    with pytest.raises(ValueError, match="no column 'Art' among: path, label, Bild, Klasse"):
        find_images(table, label_column="Art")


def test_columns_that_are_not_found_are_named(tmp_path):
    table = tmp_path / "list.csv"
    table.write_text("Bild;Klasse;Ort\n1.png;ape;Ulm\n")
    with pytest.raises(ValueError, match=r"no column of paths among: Bild, Klasse, Ort.*--path"):
        find_images(table)
    table.write_text("path;Art;Ort\n1.png;ape;Ulm\n")
    with pytest.raises(ValueError, match=r"no column of labels among: path, Art, Ort.*--label-col"):
        find_images(table)
    table.write_text("path;label;place\n1.png;ape;Ulm\n2.png;ape\n")
    with pytest.raises(ValueError, match="line 3: expected 'path,label,place', got"):
        find_images(table)
    table.write_text("path;label\n")
    with pytest.raises(ValueError, match="no rows below the header path,label"):
        find_images(table)


def test_predictions_need_no_labels(tmp_path):
    (tmp_path / "list.csv").write_text("path,size\n2.png,3\n1.png,4\n")
    assert expand_paths([tmp_path / "list.csv"]) == [
        str(tmp_path / "1.png"),
        str(tmp_path / "2.png"),
    ]


def test_a_flat_folder_with_a_table(tmp_path):
    for name in ("1.png", "2.png", "3.png"):
        (tmp_path / name).touch()
    (tmp_path / "truth.csv").write_text("path,label\n1.png,ape\n2.png,cat\n")
    with pytest.warns(UserWarning, match="ignored 1 image that the table does not list"):
        assert pairs(tmp_path) == EXPECTED
    (tmp_path / "other.csv").write_text("what,ever\n")
    with pytest.raises(ValueError, match=r"several tables \(other.csv, truth.csv\)"):
        find_images(tmp_path)
    (tmp_path / "Labels.tsv").write_text("path\tlabel\n1.png\tape\n2.png\tcat\n3.png\tcat\n")
    assert pairs(tmp_path) == [*EXPECTED, ("3.png", "cat")]


def test_images_in_the_one_folder_beside_a_table(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("1.png", "2.png"):
        (tmp_path / "images" / name).touch()
    (tmp_path / "labels.csv").write_text("filename,label\n1.png,ape\n2.png,cat\n")
    paths, labels = find_images(tmp_path)
    assert paths == [str(tmp_path / "images" / name) for name in ("1.png", "2.png")]
    assert labels == ["ape", "cat"]


def test_class_folders_come_before_a_table(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    (tmp_path / "labels.csv").write_text("what,ever\n")
    assert find_images(tmp_path)[1] == ["a", "b"]
    with pytest.raises(ValueError, match="no table"):
        find_images(tmp_path, label_column="label")


cells = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8).filter(
    lambda text: text == text.strip() and not set(text) & set(",;\t\"/'\ufeff")
)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=5), st.sampled_from(",;\t"))
def test_any_names_and_separators(tmp_path_factory, rows, separator):
    table = tmp_path_factory.mktemp("t") / "list.csv"
    lines = ["extra", "label", "path"], *(["", label, path] for path, label in rows)
    table.write_text("\n".join(separator.join(line) for line in lines), encoding="utf-8")
    found = [(row.path, row.label) for row in read_table(table)]
    expected = sorted((str(table.parent / path), label) for path, label in rows)
    assert sorted(found) == expected
