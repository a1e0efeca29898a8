"""Facts about each data set: counts, terms, origin, classes, file names.

They are in ``catalogue.toml``. Class digests are in ``manifests``, one JSON file per set, made
from complete copies: for every class the number of images and the SHA-256 of its image digests
(:func:`lrrspm.images.image_digest`), sorted and joined with newlines.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath, PurePosixPath
from urllib.parse import urlsplit

from .. import config


@dataclass(frozen=True)
class Archive:
    """A file to download, and the source of its address and checksum."""

    address: str
    source: str
    checksum: str | None = None
    """``md5:...`` or ``sha256:...``, or None if unknown."""
    inner: str | None = None
    """The archive inside the archive that holds the images."""

    @property
    def file_name(self) -> str:
        return PurePosixPath(urlsplit(self.address).path).name


@dataclass(frozen=True)
class Naming:
    """Rule for the published file names of a class."""

    template: str
    first: int = 1
    step: int = 1
    through: bool = False
    """Numbers continue from one class to the next."""


@dataclass(frozen=True)
class Published:
    """A class as published."""

    images: int
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """One data set.

    Attributes
    ----------
    images, classes : int
        As in the archive, without the files that ``skip`` excludes.
    megabytes : int
        Approximate size of the images on disk.
    pixels : tuple of (int, int) or None
        Width and height, if all images have the same.
    archive : Archive or None
        None for a part of another set.
    manifest : str or None
        The file of class digests; None if no complete copy was available.
    part_of : str or None
        The set whose folder contains this one.
    without : tuple of str
        Classes of the manifest that do not belong to this set.
    skip : str or None
        Files with this in their names are excluded.
    """

    name: str
    title: str
    images: int
    classes: int
    megabytes: int
    terms: str
    citation: str
    home: str
    pixels: tuple[int, int] | None = None
    archive: Archive | None = None
    manifest: str | None = None
    naming: Naming | None = None
    part_of: str | None = None
    without: tuple[str, ...] = ()
    skip: str | None = None
    note: str = ""

    @property
    def reference(self) -> str:
        """Return first author and year of the citation."""
        author = re.split(r",| and ", self.citation)[0].split()[-1]
        return f"{author} {self.citation.rstrip('.')[-4:]}"


def _read_catalogue() -> Iterator[Dataset]:
    content = (files(__package__) / "catalogue.toml").read_text(encoding="utf-8")
    for name, facts in tomllib.loads(content).items():
        for key, kind in (("archive", Archive), ("naming", Naming)):
            if key in facts:
                facts[key] = kind(**facts[key])
        lists = {key: tuple(fact) for key, fact in facts.items() if isinstance(fact, list)}
        yield Dataset(name, **{**facts, **lists})


DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _read_catalogue()}
"""The data sets by name, in the paper's order."""

# Caltech256 has no manifest; its folders are named 001.ak47 to 257.clutter.
_NUMBERED_CLASS = re.compile(r"\d{3}\.[\w-]+")


def find_dataset(name: str) -> Dataset:
    """Return the data set with a name, ignoring case."""
    for dataset in DATASETS.values():
        if dataset.name.lower() == name.lower():
            return dataset
    raise ValueError(f"no data set {name!r}; choose from: {', '.join(DATASETS)}")


@cache
def _read_manifest(name: str) -> dict[str, Published]:
    file = files(__package__) / "manifests" / f"{name}.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    return {label: Published(**known) for label, known in content["classes"].items()}


def published(dataset: Dataset) -> dict[str, Published]:
    """Return the published classes by name; empty if no digests are known."""
    if dataset.manifest is None:
        return {}
    known = _read_manifest(dataset.manifest)
    return {label: known[label] for label in sorted(known) if label not in dataset.without}


def file_names(dataset: Dataset) -> dict[str, list[str]]:
    """Return the published file names of each class; empty if they follow no rule."""
    naming = dataset.naming
    if naming is None:
        return {}
    names = {}
    start = naming.first
    for label, known in published(dataset).items():
        numbers = range(start, start + known.images * naming.step, naming.step)
        names[label] = [naming.template.format(label=label, number=n) for n in numbers]
        if naming.through:
            start = numbers.stop
    return names


def labeler(
    dataset: Dataset, folders: dict[str, str] | None = None
) -> Callable[[PurePath], str | None]:
    """Return a function that maps a path to its class, or None if it is not in the set.

    It works for the published archives, for our layout and for other copies:
    the class is the name of the file's folder, or the class that ``folders``
    maps it to, or the one that the file name determines.
    """
    folders = folders or {}
    classes = published(dataset)
    by_file, naming = {}, dataset.naming
    if naming is not None and (naming.through or "{label}" in naming.template):
        by_file = {name: label for label, names in file_names(dataset).items() for name in names}

    def label_of(path: PurePath) -> str | None:
        name = path.name
        if not name.lower().endswith(config.IMAGE_SUFFIXES) or name.startswith("."):
            return None
        if dataset.skip is not None and dataset.skip in name:
            return None
        label = folders.get(path.parent.name, path.parent.name)
        if label in classes or (not classes and _NUMBERED_CLASS.fullmatch(label)):
            return label
        return by_file.get(name)

    return label_of
