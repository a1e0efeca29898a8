"""The licenses of everything that lrrspm needs, from the metadata of what is installed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "licenses.md"
DEVELOPMENT = ("bench", "browser", "docs", "fuzz", "release", "test", "types")
"""Extras that only developers install."""
APART = ("gpu",)
"""Extras whose packages the page describes in words."""
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "HPND", "ISC", "MIT",
    "MIT-CMU", "PSF-2.0", "Zlib",
}  # fmt: skip
NOT_QUITE = {"certifi": "MPL-2.0"}
"""Asks for the source of changed files of its own, a list of certificates; we change none."""

_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_BEGIN = """# Licenses

lrrspm is under the BSD-3-Clause license. These are the packages that it needs, and those that its
extras add, with their SPDX licenses as their metadata state them. `make release-files` writes this
page, and `make test` fails if a package that lrrspm names is missing here, or is not permissive.

| package | license | needed by |
|---|---|---|
"""
_END = """
Certifi asks that changes to its own files are published; lrrspm changes none. Wheels of pillow-
heif contain libheif and libde265 (LGPLv3) and x265 (GPLv2), so they are under GPLv2 as a whole:
the extra `heif` is for those who accept that. The extra `gpu` is PyTorch (BSD-3-Clause), whose
builds for CUDA bring NVIDIA's libraries under NVIDIA's own license. The photographs of the extra
`demo` are under CC BY-NC-SA 4.0.
"""


class LicenseError(ValueError):
    """A package that is not installed, or whose license is not known."""


def direct(extra: str | None = None) -> list[Requirement]:
    """Return what pyproject.toml names itself: for everybody, or for an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return [Requirement(text) for text in named]


def extras() -> list[str]:
    """Return the extras that are for users, and listed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return sorted(set(project["optional-dependencies"]) - {*DEVELOPMENT, *APART})


def needed(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of packages that requirements bring on this machine, their own included."""
    found: set[tuple[str, str]] = set()
    waiting = [(one.name, extra) for one in requirements for extra in ("", *one.extras)]
    while waiting:
        name, extra = waiting.pop()
        if (canonicalize_name(name), extra) in found:
            continue
        found.add((canonicalize_name(name), extra))
        for text in _installed(name).requires or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                waiting += [(one.name, further) for further in ("", *one.extras)]
    return {name for name, _ in found} - {"lrrspm"}


def license_of(name: str) -> str:
    """Return the SPDX expression of an installed package's license."""
    package = _installed(name)
    about = package.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    kinds = [text.split(" :: ")[-1] for text in about.get_all("Classifier") or ()]
    known = {_CLASSIFIERS[kind] for kind in kinds if kind in _CLASSIFIERS}
    if known:
        return " AND ".join(sorted(known))
    stated = about["License"].strip() if "License" in about else ""
    if is_permissive(stated):
        return stated
    if "BSD License" in kinds or stated == "BSD":
        return "BSD-3-Clause" if "either the name" in stated + _texts(package) else "BSD-2-Clause"
    raise LicenseError(f"{name}: unknown license {stated!r:.60} {kinds}")


def is_permissive(expression: str, name: str = "") -> bool:
    """True if all licenses of an SPDX expression are permissive, or one of alternatives."""
    if NOT_QUITE.get(name) == expression:
        return True
    choices = re.sub(r" WITH [\w.-]+", "", expression.strip("()")).split(" OR ")
    return any(set(choice.split(" AND ")) <= PERMISSIVE for choice in choices)


def page() -> str:
    """Return docs/licenses.md."""
    core = needed(direct())
    owners = {name: ["everybody"] for name in core}
    for extra in extras():
        for name in needed(direct(extra)) - core:
            owners.setdefault(name, []).append(f"`{extra}`")
    rows = [
        f"| {name} | {license_of(name)} | {', '.join(owners[name])} |\n" for name in sorted(owners)
    ]
    return _BEGIN + "".join(rows) + _END


def listed() -> dict[str, str]:
    """Return the packages on the page and their licenses."""
    rows = re.findall(r"^\| ([\w.-]+) \| ([^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    return {name: text for name, text in rows if name != "package"}


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise LicenseError(f"{name}: not installed; use make release-files") from None


def _texts(package: Distribution) -> str:
    files = [file for file in package.files or () if "LICENSE" in file.name.upper()]
    return "".join(file.read_text("utf-8") for file in files if file.suffix in ("", ".txt", ".rst"))
