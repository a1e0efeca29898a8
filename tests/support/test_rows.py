"""Rows as CSV and JSON Lines: they come back, and no cell is a formula."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrrspm._support.rows import csv_text, write_rows

names = st.text(max_size=8)
odd = names | st.sampled_from(
    ["=1+1", "+x", "-x", "@x", "\tx", "a\nb", "a\rb", "\rx", 'a"b', "\udcff.png"]
)


@given(st.lists(st.tuples(odd, odd), max_size=4))
def test_csv_comes_back_and_is_no_formula(cells):
    rows = [{"path": path, "label": label} for path, label in cells]
    text = csv_text(["path", "label", "score"], ({**row, "score": -1.5} for row in rows))
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    for cell in (row[name] for row in found for name in ("path", "label")):
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    for row, (path, label) in zip(found, cells, strict=True):
        assert row["path"].removeprefix("./") == path.removeprefix("./")
        assert row["label"].removeprefix("'") == label.removeprefix("'")
        assert row["score"] == "-1.5"  # a number is none


@given(rows=st.lists(st.fixed_dictionaries({"path": odd}, optional={"score": st.floats(-9, 9)})))
def test_json_lines_come_back(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    write_rows(path, ["path", "score"], rows)
    lines = path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"score": None, **row} for row in rows]
    assert all(list(json.loads(line)) == ["path", "score"] for line in lines)


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.jsonl"])
def test_bytes_of_file_names_survive(name, tmp_path):
    write_rows(tmp_path / name, ["path"], [{"path": "\udcff.png"}])
    content = (tmp_path / name).read_bytes()
    assert (b"\\udcff" if name.endswith("l") else b"\xff.png") in content
