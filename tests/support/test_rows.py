"""Rows as CSV and JSON Lines: they come back, and no cell is a formula."""

import csv
import io
import json
import os

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrrspm._support.remote import delete_remote
from lrrspm._support.rows import RowFile, csv_text, open_rows, write_rows

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


@pytest.fixture(scope="module")
def bucket():
    """Files in memory."""
    return fsspec.filesystem("memory")


ROWS = [{"path": f'a\r\n"{i}.png', "label": f"{i}"} for i in range(10)]


def write(target, together, until=None, stop=False):
    """Write rows in blocks from where an earlier run stopped; return where that was."""
    with open_rows(target, ["path", "label"], "key", together) as file:
        done = file.done
        assert list(file.earlier()) == ROWS[:done]
        for first in range(done, until or len(ROWS), together):
            file.append(ROWS[first : first + together])
            assert file.done == min(first + together, len(ROWS))
        if not stop:
            file.finish()
        return done


def parts(bucket):
    return sorted(path for path in bucket.ls("/rows", detail=False) if path.endswith(".part"))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@given(together=st.integers(1, 5), other=st.integers(1, 5), until=st.integers(1, 9), data=st.data())
def test_rows_at_an_address_are_those_of_a_file(
    tmp_path_factory, bucket, name, together, other, until, data
):
    local, there = tmp_path_factory.mktemp("rows") / name, f"memory://rows/{name}"
    write_rows(local, ["path", "label"], ROWS)
    write(there, together, until, stop=True)
    left = parts(bucket)
    torn = data.draw(st.sampled_from(["whole", "half", "gone"]), "the last part")
    if torn == "half":
        content = bucket.cat(left[-1])
        bucket.pipe(left[-1], content[: len(content) // 2])
    elif torn == "gone":
        bucket.rm(left[-1])
    whole = min(-(-until // together) * together, len(ROWS)) // other * other
    done = write(there, other)
    assert done <= whole if torn != "whole" else done == whole
    assert bucket.cat(f"/rows/{name}") == local.read_bytes()
    assert parts(bucket) == []


def test_two_runs_write_the_same_address(bucket, tmp_path):
    write_rows(tmp_path / "a.csv", ["path", "label"], ROWS)
    one, other = (open_rows("memory://rows/a.csv", ["path", "label"], "key", n) for n in (2, 3))
    for first in range(0, 10, 2):
        one.append(ROWS[first : first + 2])
    for first in range(0, 6, 3):
        other.append(ROWS[first : first + 3])
    one.finish()
    other.append(ROWS[6:])
    other.finish()
    assert bucket.cat("/rows/a.csv") == (tmp_path / "a.csv").read_bytes()
    assert parts(bucket) == []


def test_parts_that_are_not_of_this_run_stay(bucket):
    with open_rows("memory://rows/a.csv", ["path", "label"], "another", 1) as other:
        other.append(ROWS[:1])
    assert write("memory://rows/a.csv", 1) == 0
    (left,) = parts(bucket)
    bucket.rm(left)


def test_parts_that_cannot_be_deleted(bucket, monkeypatch):
    def refuse(address):
        raise PermissionError("403")

    monkeypatch.setattr("lrrspm._support.rows.delete_remote", refuse)
    with pytest.warns(UserWarning, match=r"memory://rows/\.a\.csv\..* could not be deleted: 403"):
        write("memory://rows/a.csv", 5)
    assert bucket.exists("/rows/a.csv")
    for part in parts(bucket):
        delete_remote(f"memory:/{part}")


def test_a_part_that_vanishes_is_written_again(bucket, monkeypatch):
    write("memory://rows/a.csv", 5, 5, stop=True)

    def vanish(address, most):
        raise FileNotFoundError(address)

    monkeypatch.setattr("lrrspm._support.rows.read_remote", vanish)
    assert write("memory://rows/a.csv", 5) == 0


def test_a_disk_without_locks_is_warned_of(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("lrrspm._support.rows.lock_file", fail)
    with pytest.warns(UserWarning, match=r"a\.csv: its disk has no locks"):
        assert write(tmp_path / "a.csv", 2, until=4, stop=True) == 0
    with pytest.warns(UserWarning, match="two runs"):
        assert write(tmp_path / "a.csv", 2) == 4
    write_rows(tmp_path / "b.csv", ["path", "label"], ROWS)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_named(tmp_path):
    with RowFile(tmp_path / "a.csv", ["path", "label"], "key") as rows:
        rows._file.close()
        rows._file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115, closed by the context
        with pytest.raises(OSError, match="No space left") as failure:
            rows.append(ROWS)
    assert failure.value.filename == str(tmp_path / "a.csv")
