"""The examples in README and docs work, and its tables are those of the result files."""

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

PAGES = ("README.md", "docs/extending.md", "docs/paper.md")
TEXT = "\n".join((HERE.parent / page).read_text() for page in PAGES)
PACKAGE = ("my_parts.py", "pyproject.toml")


@pytest.fixture
def place(image_folder, tmp_path, monkeypatch):
    """A working directory with the files that the examples name."""
    shutil.copytree(image_folder, tmp_path / "images")
    shutil.copytree(image_folder, tmp_path / "other-images")
    shutil.copy(image_folder / "dots" / "00.png", tmp_path / "new.jpg")
    # Without data sets the paper's tables say "not run", which is quick.
    (tmp_path / "sets").mkdir()
    monkeypatch.setenv("LRRSPM_DATA", str(tmp_path / "sets"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def package(tmp_path_factory, monkeypatch):
    """The package of the README's example, installed."""
    source, site = (tmp_path_factory.mktemp(name) for name in ("source", "site"))
    for name in PACKAGE:
        (source / name).write_text(named_block(name))
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation",
            "--no-index", "--target", str(site), str(source),
        ],
        check=True,
    )  # fmt: skip
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("my_parts", None)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def named_block(name):
    (found,) = (block for block in blocks(r"\w+") if block.startswith(f"# {name}\n"))
    return found


def test_shell_examples(place, package):
    lines = [line for block in blocks("sh") for line in block.splitlines() if "lrrspm" in line]
    assert len(lines) >= 5
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}: {result.output}"


@pytest.mark.parametrize(
    ("number", "printed"),
    [(0, r"\['dots'\]"), (1, r"\{'channels__0__encoder__regularization': 0\.[17]\}")],
)
def test_python_examples(place, number, printed):
    examples = [block for block in blocks("python") if "print(" in block]
    assert len(examples) == 2
    command = [sys.executable, "-c", examples[number]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=place)
    assert re.fullmatch(printed, done.stdout.strip())


def test_make_targets_exist():
    makefile = (HERE.parent / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_numbers_of_the_presets_are_those_of_the_result_files():
    assert readme.MEASURED.read_text() == readme.measured_text()
