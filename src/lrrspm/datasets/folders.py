"""Where the data sets are: the data root, folders that the user added, what they hold."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .._support.files import write_atomically
from .._support.stages import Stages
from ..images import ImageError, digest_images, walk_images
from .catalogue import Dataset, find_dataset, labeller, published

# A file of names and not links: Windows gives links to administrators only, and a copy whose
# classes have other names needs to say which is which.
_ADDED = "added.json"


@dataclass(frozen=True)
class Place:
    """A folder with a data set in it."""

    folder: Path
    folders: dict[str, str] = field(default_factory=dict)
    """Names of folders that stand for classes with other names."""
    added: bool = False

    def images(self, dataset: Dataset) -> list[tuple[str, str]]:
        """Label and path of every picture of a data set, sorted."""
        label_of = labeller(dataset, self.folders)
        found = []
        for path in walk_images(self.folder):
            label = label_of(Path(path).relative_to(self.folder))
            if label is not None:
                found.append((label, path))
        return sorted(found)


@dataclass(frozen=True)
class Status:
    """Whether a data set is there, by the numbers of its files."""

    name: str
    folder: Path
    """Where it is, or where it is looked for."""
    there: bool
    added: bool
    images: int
    classes: int
    complete: bool


def data_root(given: str | os.PathLike[str] | None = None) -> Path:
    """The data root: what is given, else ``LRRSPM_DATA``, else the user's data folder."""
    chosen = given or os.environ.get("LRRSPM_DATA")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("lrrspm", appauthor=False)


def locate(name: str, root: str | os.PathLike[str]) -> Path | None:
    """The folder of a data set, or of the set that it is a part of; None if there is none."""
    place = find_place(find_dataset(name), Path(root))
    return place.folder if place.folder.is_dir() else None


def load(name: str, root: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Paths and labels of a data set, sorted as :func:`lrrspm.find_images` does.

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
        Only classes of the set: eight of the folder LS for OT, for example.
    """
    dataset = find_dataset(name)
    place = find_place(dataset, Path(root))
    found = place.images(dataset) if place.folder.is_dir() else []
    if not found:
        raise FileNotFoundError(f"{place.folder}: no data set {dataset.name}; {remedy(dataset)}")
    return [path for _, path in found], [label for label, _ in found]


def remedy(dataset: Dataset) -> str:
    """What to do about a data set that is not there."""
    return (
        f"download it with 'lrrspm datasets fetch {dataset.name}', use a folder that you have "
        f"with 'lrrspm datasets add {dataset.name} DIR', or give --data-dir"
    )


def find_place(dataset: Dataset, root: Path) -> Place:
    """Where a data set is, or where it would be: its own folder first, then the larger set's."""
    names = [dataset.name] if dataset.part_of is None else [dataset.name, dataset.part_of]
    added = _read_added(root)
    for name in names:
        if name in added:
            return added[name]
        if (root / name).is_dir():
            return Place(root / name)
    return Place(root / names[-1])


def status(name: str, root: str | os.PathLike[str]) -> Status:
    """Whether a data set is there and complete; files are counted, not read."""
    dataset = find_dataset(name)
    place = find_place(dataset, Path(root))
    there = place.folder.is_dir()
    counts = Counter(label for label, _ in place.images(dataset)) if there else Counter[str]()
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
    """What is wrong with the numbers of images by class, one sentence each."""
    known = published(dataset)
    if not known:
        wrong = []
        if len(counts) != dataset.classes:
            wrong.append(f"{len(counts)} classes instead of {dataset.classes}")
        if counts.total() != dataset.images:
            wrong.append(f"{counts.total()} images instead of {dataset.images}")
        return wrong
    missing = [label for label in known if label not in counts]
    wrong = [f"no images of {shorten(missing)}"] if missing else []
    wrong += [
        f"{label} has {counts[label]} images instead of {known[label].images}"
        for label in known
        if label in counts and counts[label] != known[label].images
    ]
    return wrong


def shorten(names: list[str], most: int = 5) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def add(
    name: str,
    folder: str | os.PathLike[str],
    root: str | os.PathLike[str],
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> tuple[Place, list[str]]:
    """Use a folder that is already there as a data set.

    The folder stays where and as it is; the data root keeps a note of it.
    Class folders with other names are recognised by what they hold, or, all
    of them together, by how many pictures they hold.

    Returns
    -------
    place : Place
        The folder, and which of its folders stand for which classes.
    wrong : list of str
        Where its numbers differ from the published ones. It can be used all
        the same.
    """
    dataset, folder, root = find_dataset(name), Path(folder).expanduser().resolve(), Path(root)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: no such folder")
    place = Place(folder, _recognise(dataset, folder, n_jobs, stages), added=True)
    counts = Counter(label for label, _ in place.images(dataset))
    if not counts:
        example = next(iter(published(dataset)), "001.ak47")
        raise ValueError(
            f"{folder}: none of its folders looks like a class of {dataset.name}; expected "
            f"folders such as {example} with {dataset.images} images in all"
        )
    root.mkdir(parents=True, exist_ok=True)
    _write_added(root, {**_read_added(root), dataset.name: place})
    return place, differences(dataset, counts)


def _recognise(
    dataset: Dataset, folder: Path, n_jobs: int | None, stages: Stages | None
) -> dict[str, str]:
    """Class folders with other names than the published ones, and what they stand for."""
    label_of = labeller(dataset)
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
    for name in sorted(unknown):
        paths = unknown[name]
        likely = {k.sha256: label for label, k in lacking.items() if k.images == len(paths)}
        digest = _digest_or_none(paths, n_jobs, stages) if likely else None
        if digest in likely:
            names[name] = likely[digest]
    rest = {name: len(paths) for name, paths in unknown.items() if name not in names}
    lacking = {label: k for label, k in lacking.items() if label not in names.values()}
    return names | _match_numbers(rest, {label: k.images for label, k in lacking.items()})


def _match_numbers(folders: dict[str, int], classes: dict[str, int]) -> dict[str, str]:
    """Folders that have the numbers of images of the classes, if that settles every class.

    One number alone may be chance; a whole set of different numbers is not.
    """
    names = {}
    for label, images in classes.items():
        same = [name for name, count in folders.items() if count == images]
        if len(same) != 1 or same[0] in names:
            return {}
        names[same[0]] = label
    return names


def _digest_or_none(paths: list[str], n_jobs: int | None, stages: Stages | None) -> str | None:
    try:
        return class_digest(digest_images(paths, n_jobs, stages))
    except ImageError:
        return None


def class_digest(digests: Iterable[str]) -> str:
    """Digest of a class: of the digests of its images, in an order that names do not enter."""
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


def forget(name: str, root: Path) -> bool:
    """Use the root's own folder of a data set again; tells whether another was in use."""
    added = _read_added(root)
    known = added.pop(name, None) is not None
    if known:
        _write_added(root, added)
    return known


def _write_added(root: Path, added: dict[str, Place]) -> None:
    content = {
        name: {"folder": str(place.folder), "folders": place.folders}
        for name, place in sorted(added.items())
    }
    write_atomically(root / _ADDED, (json.dumps(content, indent=1) + "\n").encode())
