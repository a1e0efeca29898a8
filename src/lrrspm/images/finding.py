"""Finding: image files and their labels, in folders and CSV files."""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import config


def find_images(root: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """List labelled pictures: one folder a class, or a CSV file.

    Parameters
    ----------
    root : path
        A folder whose sub-folders are the classes (a class may have folders
        of its own, and folders and files may be links), or a CSV file of
        ``path,label`` rows, paths relative to the CSV's folder. A first row
        that says ``path,label`` is a header.

    Returns
    -------
    paths : list of str
    labels : list of str
        Class names. Both lists are sorted by label, then by path.

    Notes
    -----
    Pictures are known by the ending of their names
    (:data:`lrrspm.config.IMAGE_SUFFIXES`). Hidden files and folders are left
    out, and so are classes without pictures, with a warning.
    """
    classes, strays = scan_classes(root)
    empty = [name for name, found in classes.items() if not found]
    if len(empty) == len(classes):
        endings = " ".join(config.IMAGE_SUFFIXES)
        raise ValueError(f"{root}: no images in its class folders (known endings: {endings})")
    if strays:
        warnings.warn(
            f"{root}: left out {len(strays)} images that lie in no class folder", stacklevel=2
        )
    if empty:
        warnings.warn(
            f"{root}: left out class folders without images: {', '.join(empty)}", stacklevel=2
        )
    paths = [path for found in classes.values() for path in found]
    labels = [name for name, found in classes.items() for _ in found]
    return paths, labels


def scan_classes(root: str | os.PathLike[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Pictures of each class of a folder or CSV file, and those of a folder that lie in none.

    Names and paths are sorted; a class may have no pictures.
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
        raise ValueError(
            f"{root}: no class folders; expected one folder a class, as in {root / 'cat' / '1.jpg'}"
        )
    strays = sorted(str(e) for e in root.iterdir() if e.is_file() and _is_picture(e.name))
    return {folder.name: sorted(walk_images(folder)) for folder in folders}, strays


def walk_images(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Pictures below a folder, links followed, each real folder visited once."""
    return (path for path in _walk_files(folder) if _is_picture(os.path.basename(path)))


def walk_others(folder: str | os.PathLike[str]) -> Iterator[str]:
    """What :func:`walk_images` leaves out because of its ending."""
    return (path for path in _walk_files(folder) if not _is_picture(os.path.basename(path)))


def _walk_files(folder: str | os.PathLike[str]) -> Iterator[str]:
    """Files below a folder, hidden ones left out."""
    seen = set()
    for where, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        state = os.stat(where)
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            if not name.startswith("."):
                yield os.path.join(where, name)


def _is_picture(name: str) -> bool:
    return name.lower().endswith(config.IMAGE_SUFFIXES) and not name.startswith(".")


def _refuse(error: OSError) -> None:
    raise error


def expand_paths(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Files as they are, folders as the pictures below them, CSV lists as theirs."""
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            # An empty folder stays in the list, to be reported with the unreadable files.
            files += sorted(walk_images(path)) or [os.fspath(path)]
        elif os.fspath(path).lower().endswith(".csv") and os.path.isfile(path):
            files += _read_csv(Path(path))[0]
        else:
            files.append(os.fspath(path))
    return files


def _read_csv(path: Path) -> tuple[list[str], list[str]]:
    rows = []
    with path.open("rb") as start:
        if b"\0" in start.read(4096):
            raise ValueError(
                f"{path}: not a folder of class folders and not a CSV file of path,label rows"
            )
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, row in enumerate(csv.reader(file), start=1):
                if not row or (
                    number == 1 and [c.strip().lower() for c in row] == ["path", "label"]
                ):
                    continue
                if len(row) != 2 or not row[0].strip() or not row[1].strip():
                    raise ValueError(f"{path}, line {number}: expected 'path,label', got {row}")
                rows.append((row[1].strip(), _listed(path.parent, row[0])))
    except csv.Error as error:
        raise ValueError(
            f"{path}: not a folder of class folders and not a CSV file of path,label rows ({error})"
        ) from error
    if not rows:
        raise ValueError(f"{path}: no path,label rows")
    rows.sort()
    return [path for _, path in rows], [label for label, _ in rows]


def _listed(folder: Path, name: str) -> str:
    """A file that a list names; blanks around the name count if there is such a file."""
    exact = os.path.join(folder, name)
    return exact if os.path.exists(exact) else os.path.join(folder, name.strip())
