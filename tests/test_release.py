"""Version, citations, changelog, licenses and workflows agree with the package."""

import re
import sys
import tomllib

import pytest
import yaml
from packaging.utils import canonicalize_name

import lrrspm
from release import files, licenses
from tests.conftest import HERE

ROOT = HERE.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text())


def bibtex(kind):
    """Fields of an entry in docs/citing.md."""
    text = (ROOT / "docs" / "citing.md").read_text()
    (entry,) = re.findall(rf"@{kind}\{{.*?^\}}", text, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^  (\w+) *= \{+(.*?)\}+,?$", entry, re.MULTILINE))


def test_versions_agree():
    assert citation()["version"] == lrrspm.__version__ == bibtex("software")["version"]
    for path, pattern in files.CITATIONS.items():
        found = re.findall(pattern, path.read_text(), re.MULTILINE)
        assert found == [lrrspm.__version__], path


def test_titles_and_authors_agree():
    ours, paper = citation(), citation()["preferred-citation"]
    assert ours["title"] == bibtex("software")["title"]
    assert ours["license"] == bibtex("software")["license"] == PROJECT["license"]
    assert ours["keywords"] == PROJECT["keywords"]
    entry = bibtex("article")
    assert (paper["title"], paper["journal"]) == (entry["title"], entry["journal"])
    assert str(paper["year"]) == entry["year"]
    assert paper["identifiers"][0]["value"] == entry["note"]
    names = [f"{one['family-names']}, {one['given-names']}" for one in paper["authors"]]
    assert " and ".join(names) == entry["author"]
    for page in ("README.md", "docs/paper.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert paper["title"] in text, page
        assert f"({', '.join(one['family-names'] for one in paper['authors'])}, 2015)" in text


SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_changelog_keeps_its_form():
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    named = [one for one in releases if not one.startswith("Unreleased\n")]
    assert releases[1:] == named or releases == named  # what is not released comes first
    assert named[0].split()[0] == lrrspm.__version__
    for release in releases:
        sections = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert sections == [name for name in SECTIONS if name in sections], release[:40]
        for section in re.split(r"^### .+\n", release, flags=re.MULTILINE)[1:]:
            items = section.strip().splitlines()
            assert items[0].startswith("- ")
            # One list: blank lines only around a table.
            inner = [i for i, line in enumerate(items) if not line]
            assert all(
                items[i - 1].startswith("  |") or items[i + 1].startswith("  |") for i in inner
            )


def test_pages_list_all_licenses_and_they_are_permissive():
    listed = licenses.listed()
    for extra in (None, *licenses.extras()):
        assert {canonicalize_name(one.name) for one in licenses.direct(extra)} <= set(listed)
    text = licenses.PAGE.read_text()
    core = re.findall(r"^\| ([\w.-]+) \| ([^|]+) \| everybody \|$", text, re.MULTILINE)
    assert len(core) > len(licenses.direct())
    assert [name for name, kind in core if not licenses.is_permissive(kind, name)] == []


@pytest.mark.parametrize(
    ("expression", "permissive"),
    [
        ("MIT", True),
        ("BSD-3-Clause AND MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("GPL-3.0-only", False),
        ("BSD-3-Clause AND GPL-3.0-only", False),
        ("MPL-2.0", False),
        ("", False),
    ],
)
def test_permissive_expressions(expression, permissive):
    assert licenses.is_permissive(expression) is permissive
    assert licenses.is_permissive("MPL-2.0", "certifi")


def test_extras_are_for_users_or_developers():
    named = set(PROJECT["optional-dependencies"])
    assert {*licenses.APART} <= named
    # The page of licenses lists what the release environment has.
    (own,) = (one for one in licenses.direct("release") if one.name == "lrrspm")
    assert set(licenses.extras()) == own.extras


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows(path):
    content = yaml.safe_load(path.read_text())
    assert content[True]  # "on" is a truth in YAML 1.1
    assert content["permissions"] == {"contents": "read"}
    makefile = (ROOT / "Makefile").read_text()
    for name, job in content["jobs"].items():
        assert job.get("permissions", {}) in ({}, {"id-token": "write"}), name
        for step in job.get("steps", ()):
            if "uses" in step:
                assert re.search(r"@(v\d+|release/v\d+)$", step["uses"]), step
            for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        matrix = job.get("strategy", {}).get("matrix", {})
        for target in matrix.get("target", ()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        tested = [f"Programming Language :: Python :: {one}" for one in matrix.get("python", ())]
        classified = [one for one in PROJECT["classifiers"] if ":: Python :: 3." in one]
        assert tested in ([], classified)


def test_smoke_test_needs_no_test_package():
    """It runs where lrrspm is installed and nothing else."""
    text = (ROOT / "release" / "smoke.py").read_text()
    imported = set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))
    assert imported - sys.stdlib_module_names == {"PIL", "lrrspm", "numpy"}
