"""Finding: image files and their labels, in folders and CSV files."""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import config
from .._support.text import plural


def find_images(root: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """List labeled images: one folder per class, or a CSV file.

    Parameters
    ----------
    root : path
        A folder whose sub-folders are the classes (a class may have folders
        of its own, and folders and files may be links), or a CSV file of
        ``path,label`` rows, paths relative to the CSV's folder. A first row
        ``path,label`` is a header.

    Returns
    -------
    paths : list of str
    labels : list of str
        Class names. Both lists are sorted by label, then by path.

    Notes
    -----
    The suffix of a file name tells images from other files
    (:data:`lrrspm.config.IMAGE_SUFFIXES`). Hidden files and folders are
    ignored, and so are classes without images, with a warning.
    """
    classes, strays = scan_classes(root)
    empty = [name for name, found in classes.items() if not found]
    if len(empty) == len(classes):
        suffixes = " ".join(config.IMAGE_SUFFIXES)
        raise ValueError(f"{root}: no images in its class folders (known suffixes: {suffixes})")
    if strays:
        count = plural(len(strays), "image")
        warnings.warn(f"{root}: ignored {count} outside the class folders", stacklevel=2)
    if empty:
        names = ", ".join(empty)
        warnings.warn(f"{root}: ignored class folders without images: {names}", stacklevel=2)
    paths = [path for found in classes.values() for path in found]
    labels = [name for name, found in classes.items() for _ in found]
    return paths, labels


def scan_classes(root: str | os.PathLike[str]) -> tuple[dict[str, list[str]], list[str]]:
    """List the images of each class of a folder or CSV file, and those outside the class folders.

    Names and paths are sorted; a class may have no images.
    """
    root = Path(root)
    if not root.exists():
        raise FileNotFoundError(f"{root}: no such file or folder")
    if root.is_file():
        classes: dict[str, list[str]] = {}
        for path, label in zip(*_read_csv(root), strict=True):
            classes.setdefault(label, []).append(path)
        return classes, []
    folders = sorted(d for d in root.iterdir() if d.is_dir() and not d.name.startswith("."))
    if not folders:
        example = root / "cat" / "1.jpg"
        raise ValueError(f"{root}: no class folders; expected one per class, as in {example}")
    strays = sorted(str(e) for e in root.iterdir() if e.is_file() and _is_image(e.name))
    return {folder.name: sorted(walk_images(folder)) for folder in folders}, strays


def walk_images(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the images below a folder; follows links, visits each real folder once."""
    return (path for path in _walk_files(folder) if _is_image(os.path.basename(path)))


def walk_others(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the files that :func:`walk_images` ignores because of their suffix."""
    return (path for path in _walk_files(folder) if not _is_image(os.path.basename(path)))


def _walk_files(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the files below a folder except hidden ones."""
    seen = set()

    def fail(error: OSError) -> None:  # the default is to skip what cannot be listed
        raise error

    for where, folders, files in os.walk(folder, followlinks=True, onerror=fail):
        state = os.stat(where)
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if not name.startswith("."):
                yield os.path.join(where, name)


def _is_image(name: str) -> bool:
    return name.lower().endswith(config.IMAGE_SUFFIXES) and not name.startswith(".")


def expand_paths(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Replace folders by the images below them and CSV files by the images that they list."""
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            # An empty folder stays, to be reported with the unreadable files.
            files += sorted(walk_images(path)) or [os.fspath(path)]
        elif os.fspath(path).lower().endswith(".csv") and os.path.isfile(path):
            files += _read_csv(Path(path))[0]
        else:
            files.append(os.fspath(path))
    return files


def _read_csv(path: Path) -> tuple[list[str], list[str]]:
    wrong = "neither a folder of class folders nor a CSV file of path,label rows"
    with path.open("rb") as start:  # not a text file at all, most likely
        before, nul, _ = start.read(4096).partition(b"\0")
    if nul:
        line = before.count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: a NUL character; {wrong}")
    rows = []
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        reader = csv.reader(file)
        try:
            for row in reader:
                number = reader.line_num
                if any("\0" in cell for cell in row):
                    raise ValueError(f"{path}, line {number}: a NUL character; {wrong}")
                header = [cell.strip().lower() for cell in row] == ["path", "label"]
                if not row or (number == 1 and header):
                    continue
                if len(row) != 2 or not row[0].strip() or not row[1].strip():
                    raise ValueError(f"{path}, line {number}: expected 'path,label', got {row}")
                rows.append((row[1].strip(), _listed(path.parent, row[0])))
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: {error}; {wrong}") from error
    if not rows:
        raise ValueError(f"{path}: no path,label rows")
    rows.sort()
    return [path for _, path in rows], [label for label, _ in rows]


def _listed(folder: Path, name: str) -> str:
    """Return the path of a listed file; blanks around the name count if such a file exists."""
    exact = os.path.join(folder, name)
    return exact if os.path.exists(exact) else os.path.join(folder, name.strip())
