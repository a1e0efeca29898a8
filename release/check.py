"""Build wheel and sdist, check them, and try them where nothing else is installed.

    python -m release.check [PYTHON ...]

Each PYTHON is an interpreter, such as ``python3.12``; this one without any. The wheel is tried
with the newest and with the oldest dependencies. Writes ``dist/``: wheel, sdist, SBOM.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from lrrspm import __version__

from . import licenses

DIST = licenses.ROOT / "dist"
_BIN = Path(sys.executable).parent
_SCRIPTS, _SUFFIX = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")
_IN_WHEEL = (
    "lrrspm/py.typed",
    "lrrspm/measured.json",
    "lrrspm/paper/published.json",
    "lrrspm/datasets/catalogue.toml",
    "lrrspm/report/templates/",
    "lrrspm/serve/static/index.html",
)
_IN_SDIST = (
    "pyproject.toml", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff",
    "CONTRIBUTING.md", "src/lrrspm/__init__.py", "tests/conftest.py", "tests/golden/", "docs/",
    "benchmarks/results/", "fuzz/", "release/smoke.py",
)  # fmt: skip


def run(*command: object, folder: str | Path | None = None) -> None:
    """Run a command that must succeed, outside of whatever set PYTHONPATH."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    print("+", *command, flush=True)
    subprocess.run(list(map(str, command)), check=True, cwd=folder, env=environment)


def build() -> tuple[Path, Path]:
    """Build sdist and wheel, the wheel from the sdist; returns both."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", DIST, licenses.ROOT)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Stop where a file is missing, or is one too many."""
    with zipfile.ZipFile(wheel) as archive:
        _check(wheel, archive.namelist(), _IN_WHEEL)
        tops = {name.split("/")[0] for name in archive.namelist()}
    own = {"lrrspm", f"lrrspm-{__version__}.dist-info"}
    if tops != own:
        raise SystemExit(f"{wheel.name}: has more than the package: {sorted(tops - own)}")
    with tarfile.open(sdist) as content:
        names = [name.partition("/")[2] for name in content.getnames()]
    _check(sdist, names, _IN_SDIST)


def _check(path: Path, names: list[str], wanted: tuple[str, ...]) -> None:
    for one in wanted:
        if not any(name == one or (one[-1] == "/" and name.startswith(one)) for name in names):
            raise SystemExit(f"{path.name}: has no {one}")


def make_environment(folder: Path, python: str, *packages: object, oldest: bool = False) -> Path:
    """Make an environment with packages and what they need; returns its interpreter."""
    uv = _BIN / f"uv{_SUFFIX}"
    run(uv, "venv", "-q", "--python", python, folder)
    interpreter = folder / _SCRIPTS / f"python{_SUFFIX}"
    # Only wheels: an old version without one for this Python is skipped, not compiled.
    options = ["--only-binary", ":all:", "--resolution", "lowest-direct" if oldest else "highest"]
    run(uv, "pip", "install", "-q", "--python", interpreter, *options, *packages)
    return interpreter


def try_wheel(wheel: Path, python: str, place: Path) -> None:
    """Try a wheel with the newest and the oldest dependencies, outside of the checkout."""
    for oldest in (False, True):
        folder = place / ("oldest" if oldest else "newest")
        # The oldest versions are taken only of what is named.
        named = map(str, licenses.direct()) if oldest else ()
        interpreter = make_environment(folder, python, wheel, *named, oldest=oldest)
        run(interpreter, "-I", licenses.ROOT / "release" / "smoke.py", folder=place)
        if not oldest and python == sys.executable:
            write_sbom(interpreter)
        shutil.rmtree(folder)


def write_sbom(interpreter: Path) -> None:
    """Write what a fresh installation consists of, as CycloneDX."""
    run(
        *(_BIN / f"cyclonedx-py{_SUFFIX}", "environment", interpreter),
        *("--pyproject", licenses.ROOT / "pyproject.toml", "--mc-type", "library"),
        *("--output-reproducible", "--of", "JSON", "-o", DIST / "sbom.cdx.json"),
    )


def try_sdist(sdist: Path, place: Path) -> None:
    """Install from an sdist, collect all of its tests, and run a few."""
    with tarfile.open(sdist) as content:
        content.extractall(place, filter="data")
    (folder,) = place.glob("lrrspm-*")
    built = ("--no-binary", "lrrspm", f"{folder}[test]")
    interpreter = make_environment(place / "sdist", sys.executable, *built)
    run(interpreter, "-m", "pytest", "--collect-only", "-qq", folder=folder)
    run(interpreter, "-m", "pytest", "tests/test_api.py", "tests/test_docs.py", folder=folder)


def main() -> None:
    for name in sorted(licenses.needed(licenses.direct())):
        if not licenses.is_permissive(licenses.license_of(name), name):
            raise SystemExit(f"{name}: {licenses.license_of(name)} is not a permissive license")
    if licenses.PAGE.read_text("utf-8") != licenses.page():
        raise SystemExit(f"{licenses.PAGE}: not up to date; run make release-files")
    wheel, sdist = build()
    check_contents(wheel, sdist)
    for python in sys.argv[1:] or [sys.executable]:
        with tempfile.TemporaryDirectory() as place:
            try_wheel(wheel, python, Path(place))
    with tempfile.TemporaryDirectory() as place:
        try_sdist(sdist, Path(place))
    print(f"dist/ is ready: {', '.join(sorted(path.name for path in DIST.iterdir()))}")


if __name__ == "__main__":
    main()
