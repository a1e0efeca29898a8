"""Finding: image files and their labels, in folders and tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from .. import config
from .._support.remote import check_address, is_remote, list_remote
from .._support.text import natural_key, plural
from .tables import is_table, read_table

TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation")
"""Names of folders that are parts of a split, in any letter case, not classes."""


class Labeled(NamedTuple):
    """Labeled images: those to train with first, each part sorted by label, then by path."""

    paths: list[str]
    labels: list[str]
    tests: list[bool]
    """True for images below ``test/`` or ``val/``; none without such folders."""
    columns: dict[str, list[str]]
    """The columns of a table with a header, a cell per image."""

    def part(self, test: bool) -> tuple[list[str], list[str]]:
        """Return paths and labels of one side of the split."""
        chosen = [i for i, one in enumerate(self.tests) if one is test]
        return [self.paths[i] for i in chosen], [self.labels[i] for i in chosen]


class Scan(NamedTuple):
    """All that a folder or table holds; a class may have no images."""

    classes: dict[str, list[str]]
    """Images to train with, per class."""
    tests: dict[str, list[str]] | None
    """Images to test with, or None without a split."""
    strays: list[str]
    """Images that belong to no class."""
    folders: list[Path]
    """The class folders, of a folder on this machine."""
    columns: dict[str, list[str]]


def find_images(
    root: str | os.PathLike[str],
    part: Literal["train", "test"] = "train",
    path_column: str | None = None,
    label_column: str | None = None,
) -> tuple[list[str], list[str]]:
    """List labeled images: one folder per class, or a table.

    Parameters
    ----------
    root : path
        A folder whose sub-folders are the classes (a class may have folders
        of its own, and folders and files may be links); a folder with
        ``train/`` and ``test/`` (or ``val/``), each with a folder per class; a
        CSV file with a column of paths, relative to its own folder, and one of
        labels; or a folder of images with such a file, ``labels.csv``.
    part : "train" or "test"
        Which images of a folder with ``train/`` and ``test/``. Without these,
        all images are for training, and there is no test part.
    path_column, label_column : str or None
        Columns of a CSV file whose names do not tell.

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
    if part not in ("train", "test"):
        raise ValueError(f"part must be 'train' or 'test', got {part!r}")
    found = find_labeled(root, path_column, label_column)
    paths, labels = found.part(part == "test")
    if not paths:
        wanted = " or ".join(TEST if part == "test" else TRAIN)
        raise ValueError(f"{root}: no images in a folder {wanted}")
    return paths, labels


def find_labeled(
    root: str | os.PathLike[str], path_column: str | None = None, label_column: str | None = None
) -> Labeled:
    """List the images of both sides of a split, or those without one; see :func:`find_images`."""
    scan = scan_images(root, path_column, label_column)
    sides = [(False, scan.classes), (True, scan.tests or {})]
    images = [
        (path, name, test)
        for test, classes in sides
        for name, found in classes.items()
        for path in found
    ]
    if not images:
        suffixes = " ".join(config.IMAGE_SUFFIXES)
        raise ValueError(f"{root}: no images in its class folders (known suffixes: {suffixes})")
    if scan.strays:
        count = plural(len(scan.strays), "image")
        in_folders = scan.folders or is_remote(root)
        where = "outside the class folders" if in_folders else "that the table does not list"
        warnings.warn(f"{root}: ignored {count} {where}", stacklevel=3)
    full = {name for _, name, _ in images}
    empty = dict.fromkeys(name for _, classes in sides for name in classes if name not in full)
    if empty:
        names = ", ".join(empty)
        warnings.warn(f"{root}: ignored class folders without images: {names}", stacklevel=3)
    paths, labels, tests = (list(column) for column in zip(*images, strict=True))
    return Labeled(paths, labels, tests, scan.columns)


def scan_images(
    root: str | os.PathLike[str], path_column: str | None = None, label_column: str | None = None
) -> Scan:
    """List the images of each class of a folder or table, and those without a class."""
    if isinstance(root, str) and is_remote(root):
        if path_column is not None or label_column is not None:
            raise ValueError(
                f"{root}: path and label columns are for a CSV file on this machine, not an address"
            )
        return _scan_remote(check_address(root))
    root = Path(root)
    if not root.exists():
        raise FileNotFoundError(f"{root}: no such file or folder")
    if root.is_file():
        return _scan_table(root, path_column, label_column)
    folders = _subfolders(root)
    table = _labels_file(root, folders)
    if table is not None:
        return _scan_table(table, path_column, label_column, folders)
    if path_column is not None or label_column is not None:
        raise ValueError(f"{root}: no table of labels, so no path or label column either")
    if not folders:
        example = root / "cat" / "1.jpg"
        raise ValueError(f"{root}: no class folders; expected one per class, as in {example}")
    train, tests, strays = _parts(root, folders)
    return Scan(
        _scan_folders(train), _scan_folders(tests) if tests is not None else None,
        [*_images_in(root), *strays], [*train, *(tests or [])], {},
    )  # fmt: skip


def _scan_remote(root: str) -> Scan:
    """List class folders below an address; tables are read on this machine alone."""
    names = [path[len(root) + 1 :] for path in list_remote(root)]
    images = [name for name in names if _is_image(name.rpartition("/")[2])]
    first = {name.partition("/")[0] for name in images if "/" in name}
    if not first:
        found = "no class folders" if names else "nothing is there, or no class folders"
        raise ValueError(f"{root}: {found}; expected one per class, as in {root}/cat/1.jpg")
    split = all(name.lower() in TRAIN + TEST for name in first) and any(
        name.count("/") > 1 for name in images
    )
    train: dict[str, list[str]] = {}
    tests: dict[str, list[str]] = {}
    strays = []
    for name in images:
        *folders, _ = name.split("/")
        own = folders[1:] if split else folders
        if not own:
            strays.append(f"{root}/{name}")
            continue
        side = tests if split and folders[0].lower() in TEST else train
        side.setdefault(own[0], []).append(f"{root}/{name}")
    ordered = [{name: sorted(side[name]) for name in sorted(side)} for side in (train, tests)]
    return Scan(ordered[0], ordered[1] if split else None, strays, [], {})


def _scan_table(
    table: Path,
    path_column: str | None,
    label_column: str | None,
    folders: list[Path] | None = None,
) -> Scan:
    rows = read_table(table, path_column, label_column, folders or [])
    classes: dict[str, list[str]] = {}
    for row in rows:
        classes.setdefault(row.label, []).append(row.path)
    columns = {name: [row.cells[name] for row in rows] for name in rows[0].cells}
    listed = {row.path for row in rows}
    there = [] if folders is None else walk_images(table.parent)
    return Scan(classes, None, sorted(set(there) - listed), [], columns)


def _labels_file(root: Path, folders: list[Path]) -> Path | None:
    """Return the table of a folder of images: labels.csv, or the only one beside the images."""
    tables = sorted(e for e in root.iterdir() if is_table(e) and not e.name.startswith("."))
    named = [table for table in tables if table.stem.lower() == "labels"]
    if len(folders) > 1 or (folders and not named):
        return None
    found = named or tables
    if len(found) > 1:
        names = ", ".join(table.name for table in found)
        raise ValueError(f"{root}: several tables ({names}); give the path of one of them")
    return found[0] if found else None


def _parts(root: Path, folders: list[Path]) -> tuple[list[Path], list[Path] | None, list[str]]:
    """Return the class folders of a split's two sides, or all, None; and images between them."""
    sides = {
        folder: _subfolders(folder) for folder in folders if folder.name.lower() in TRAIN + TEST
    }
    if not any(sides.values()):
        return folders, None, []
    others = [e for e in folders if e not in sides and next(walk_images(e), None) is not None]
    if others:
        if len(sides) > 1:
            names = ", ".join(side.name for side in sides)
            warnings.warn(
                f"{root}: {names} are read as classes, not as a split, because there are other "
                f"folders beside them, such as {others[0].name}",
                stacklevel=4,
            )
        return folders, None, []
    train: list[Path] = []
    tests: list[Path] = []
    for side, classes in sides.items():
        (train if side.name.lower() in TRAIN else tests).extend(classes)
    return train, tests, [path for side in sides for path in _images_in(side)]


def _subfolders(folder: Path) -> list[Path]:
    return sorted(d for d in folder.iterdir() if d.is_dir() and not d.name.startswith("."))


def _images_in(folder: Path) -> list[str]:
    """Return the images in a folder itself."""
    return sorted(str(e) for e in folder.iterdir() if e.is_file() and _is_image(e.name))


def _scan_folders(folders: Iterable[Path]) -> dict[str, list[str]]:
    """Return the images of class folders; those of one name are one class."""
    classes: dict[str, list[str]] = {}
    for folder in sorted(folders, key=lambda folder: folder.name):
        classes[folder.name] = sorted([*classes.get(folder.name, []), *walk_images(folder)])
    return classes


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


def expand_paths(
    paths: Iterable[str | os.PathLike[str]], path_column: str | None = None
) -> list[str]:
    """Replace folders by the images below them and CSV files by the images that they list.

    Images of a folder are in natural order: 2 before 10.
    """
    files: list[str] = []
    for path in paths:
        if isinstance(path, str) and is_remote(path):
            address = check_address(path)
            # A suffix tells an image from a folder without a question.
            below = [] if _is_image(address) else list_remote(address)
            images = (one for one in below if _is_image(one.rpartition("/")[2]))
            files += sorted(images, key=natural_key) or [address]
        elif os.path.isdir(path):
            # An empty folder stays, to be reported with the unreadable files.
            files += sorted(walk_images(path), key=natural_key) or [os.fspath(path)]
        elif is_table(path):
            files += [row.path for row in read_table(Path(path), path_column, labeled=False)]
        else:
            files.append(os.fspath(path))
    return files
