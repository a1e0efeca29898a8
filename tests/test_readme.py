"""What the README shows works, and its numbers are those of the result files."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks import readme
from lrrspm.cli import app
from tests.conftest import HERE

TEXT = (HERE.parent / "README.md").read_text()


@pytest.fixture
def place(pictures, tmp_path, monkeypatch):
    """A folder as the README assumes it."""
    shutil.copytree(pictures, tmp_path / "pictures")
    shutil.copytree(pictures, tmp_path / "other-pictures")
    shutil.copy(pictures / "dots" / "00.png", tmp_path / "new.jpg")
    # Data sets are for those who have them; without, tables say "not run".
    (tmp_path / "sets").mkdir()
    monkeypatch.setenv("LRRSPM_DATA", str(tmp_path / "sets"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_shell_example(place):
    lines = [line for block in blocks("sh") for line in block.splitlines() if "lrrspm" in line]
    assert len(lines) >= 5
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output


def test_python_example(place):
    (example,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=True, cwd=place
    )
    assert done.stdout == "['dots']\n"


def test_make_targets_exist():
    makefile = (HERE.parent / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize(
    ("page", "markers"),
    [
        ("README.md", {"accuracy", "methods", "headlines"}),
        ("docs/speed.md", {"speed", "coding"}),
        ("docs/evidence.md", {"evidence"}),
    ],
)
def test_tables_are_those_of_the_result_files(page, markers):
    text = (HERE.parent / page).read_text()
    assert set(re.findall(r"<!-- (\w+) -->", text)) == markers
    for marker in markers:
        assert readme.insert(text, marker, readme.tables()[marker]) == text
