"""Folders of the data sets: the data root, folders that the user added, their contents."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .._support.files import write_atomically
from .._support.stages import Stages
from .._support.text import plural
from ..images import ImageError, digest_images, walk_images
from .catalogue import Dataset, find_dataset, labeler, published

# A file, not links: Windows lets only administrators create links, and a copy whose class folders
# have other names needs a mapping.
_ADDED = "added.json"


@dataclass(frozen=True)
class Place:
    """A folder that holds a data set."""

    folder: Path
    folders: dict[str, str] = field(default_factory=dict)
    """Classes of folders that have other names."""
    added: bool = False

    def images(self, dataset: Dataset) -> list[tuple[str, str]]:
        """Return label and path of every image of a data set, sorted."""
        label_of = labeler(dataset, self.folders)
        paths = walk_images(self.folder)
        labels = ((label_of(Path(path).relative_to(self.folder)), path) for path in paths)
        return sorted((label, path) for label, path in labels if label is not None)

    def counts(self, dataset: Dataset) -> Counter[str]:
        """Count the images of each class."""
        return Counter(label for label, _ in self.images(dataset))


@dataclass(frozen=True)
class Status:
    """State of a data set, judged by its file counts."""

    name: str
    folder: Path
    """Its folder, or where it is expected."""
    there: bool
    added: bool
    images: int
    classes: int
    complete: bool


def data_root(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the data root: the given one, else ``LRRSPM_DATA``, else the user's data folder."""
    chosen = given or os.environ.get("LRRSPM_DATA")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("lrrspm", appauthor=False)


def locate(name: str, root: str | os.PathLike[str]) -> Path | None:
    """Return the folder of a data set or of the set that contains it; None if there is none."""
    place = find_place(find_dataset(name), Path(root))
    return place.folder if place.folder.is_dir() else None


def load(name: str, root: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return paths and labels of a data set, sorted as by :func:`lrrspm.find_images`.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`.
    root : path
        The data root; see :func:`data_root`.

    Returns
    -------
    paths : list of str
    labels : list of str
        Only classes of the set: for OT, eight of those in the folder LS.
    """
    dataset = find_dataset(name)
    place = find_place(dataset, Path(root))
    found = place.images(dataset) if place.folder.is_dir() else []
    if not found:
        raise not_found(dataset, place)
    return [path for _, path in found], [label for label, _ in found]


def not_found(dataset: Dataset, place: Place) -> FileNotFoundError:
    """Return the error for a missing data set, which says how to get it."""
    return FileNotFoundError(
        f"{place.folder}: no data set {dataset.name}; download it with 'lrrspm datasets fetch "
        f"{dataset.name}', use a folder that you already have with 'lrrspm datasets add "
        f"{dataset.name} DIR', or set --data-dir"
    )


def find_place(dataset: Dataset, root: Path) -> Place:
    """Return where a data set is or is expected: its own folder, else the containing set's."""
    names = [dataset.name] if dataset.part_of is None else [dataset.name, dataset.part_of]
    added = _read_added(root)
    for name in names:
        if name in added:
            return added[name]
        if (root / name).is_dir():
            return Place(root / name)
    return Place(root / names[-1])


def status(name: str, root: str | os.PathLike[str]) -> Status:
    """Return the state of a data set; files are counted, not read."""
    dataset = find_dataset(name)
    place = find_place(dataset, Path(root))
    there = place.folder.is_dir()
    counts = place.counts(dataset) if there else Counter[str]()
    return Status(
        name=dataset.name,
        folder=place.folder,
        there=there,
        added=place.added,
        images=counts.total(),
        classes=len(counts),
        complete=not differences(dataset, counts),
    )


def differences(dataset: Dataset, counts: Counter[str]) -> list[str]:
    """List where the image counts differ from the published ones, one sentence each."""
    known = published(dataset)
    if not known:
        totals = (
            (len(counts), dataset.classes, "class"),
            (counts.total(), dataset.images, "image"),
        )
        return [f"{plural(n, noun)} instead of {right}" for n, right, noun in totals if n != right]
    missing = [label for label in known if label not in counts]
    return ([f"no images of {shorten(missing)}"] if missing else []) + [
        f"{label} has {plural(counts[label], 'image')} instead of {known[label].images}"
        for label in known
        if label in counts and counts[label] != known[label].images
    ]


def shorten(names: list[str], most: int = 5) -> str:
    """Join the first names of a list and say how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def add(
    name: str,
    folder: str | os.PathLike[str],
    root: str | os.PathLike[str],
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> tuple[Place, list[str]]:
    """Use an existing folder as a data set.

    The folder is not changed; the data root keeps a note of it. Class folders
    with other names are recognized by their content or, if that settles all
    of them, by their image counts.

    Returns
    -------
    place : Place
        The folder, and the classes of its renamed folders.
    wrong : list of str
        Where its counts differ from the published ones. The folder can be
        used anyway.
    """
    dataset, folder, root = find_dataset(name), Path(folder).expanduser().resolve(), Path(root)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: no such folder")
    place = Place(folder, _recognize(dataset, folder, n_jobs, stages), added=True)
    counts = place.counts(dataset)
    if not counts:
        example = next(iter(published(dataset)), "001.ak47")
        raise ValueError(
            f"{folder}: no folder looks like a class of {dataset.name}; expected folders such as "
            f"{example}, {dataset.images} images in all"
        )
    root.mkdir(parents=True, exist_ok=True)
    _write_added(root, {**_read_added(root), dataset.name: place})
    return place, differences(dataset, counts)


def _recognize(
    dataset: Dataset, folder: Path, n_jobs: int | None, stages: Stages | None
) -> dict[str, str]:
    """Map class folders with other names than the published ones to their classes."""
    label_of = labeler(dataset)
    unknown = defaultdict(list)
    found = set()
    for path in walk_images(folder):
        relative = Path(path).relative_to(folder)
        label = label_of(relative)
        if label is not None:
            found.add(label)
        elif relative.parent.name:
            unknown[relative.parent.name].append(path)
    lacking = {label: known for label, known in published(dataset).items() if label not in found}
    names = {}
    for name, paths in sorted(unknown.items()):
        likely = {k.sha256: label for label, k in lacking.items() if k.images == len(paths)}
        if likely:
            with contextlib.suppress(ImageError, KeyError):  # unreadable, or other content
                names[name] = likely[class_digest(digest_images(paths, n_jobs, stages))]
    rest = {name: len(paths) for name, paths in unknown.items() if name not in names}
    counts = {label: k.images for label, k in lacking.items() if label not in names.values()}
    return names | _match_counts(rest, counts)


def _match_counts(folders: dict[str, int], classes: dict[str, int]) -> dict[str, str]:
    """Map folders to classes by image counts, if that settles every class.

    One matching count may be chance; a whole set of different ones is not.
    """
    names = {}
    for label, images in classes.items():
        same = [name for name, count in folders.items() if count == images]
        if len(same) != 1 or same[0] in names:
            return {}
        names[same[0]] = label
    return names


def class_digest(digests: Iterable[str]) -> str:
    """Return the digest of a class from those of its images, independent of file names."""
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def _read_added(root: Path) -> dict[str, Place]:
    path = root / _ADDED
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Place(Path(entry["folder"]), dict(entry["folders"]), added=True)
            for name, entry in content.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: not a list of added folders ({error}); delete it and add them again"
        ) from None


def forget(name: str, root: Path) -> None:
    """Use the data root's own copy of a data set again."""
    added = _read_added(root)
    if added.pop(name, None) is not None:
        _write_added(root, added)


def _write_added(root: Path, added: dict[str, Place]) -> None:
    content = {
        name: {"folder": str(place.folder), "folders": place.folders}
        for name, place in sorted(added.items())
    }
    write_atomically(root / _ADDED, (json.dumps(content, indent=1) + "\n").encode())
