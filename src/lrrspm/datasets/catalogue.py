"""Facts about each data set: counts, terms, origin, classes, file names.

Class digests are in ``manifests``, one JSON file per set, made from complete copies: for
every class the number of images and the SHA-256 of its image digests
(:func:`lrrspm.images.image_digest`), sorted and joined with newlines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
    checksum: str | None
    """``md5:...`` or ``sha256:...``, or None if unknown."""
    source: str
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
    """Numbers continue from one class to the next, so a name determines its class."""

    @property
    def shows_class(self) -> bool:
        return self.through or "{label}" in self.template


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
    pixels: tuple[int, int] | None
    terms: str
    citation: str
    home: str
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


_COLUMBIA = "http://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100"
_NEVIS = "google-deepmind/dm_nevis: dm_nevis/datasets_storage/handlers"
_NUMBERED = Naming("image_{number:04}.jpg")

_ALL = (
    Dataset(
        name="OT",
        title="Oliva and Torralba's outdoor scenes",
        images=2688,
        classes=8,
        megabytes=34,
        pixels=(256, 256),
        terms="none stated",
        citation="A. Oliva and A. Torralba. Modeling the shape of the scene: a holistic "
        "representation of the spatial envelope. International Journal of Computer Vision "
        "42(3):145-175, 2001.",
        home="http://www-cvr.ai.uiuc.edu/ponce_grp/data/",
        manifest="LS",
        naming=_NUMBERED,
        part_of="LS",
        without=(
            "CALsuburb", "PARoffice", "bedroom", "industrial", "kitchen", "livingroom", "store",
        ),
        note="The eight MIT classes of LS, in gray.",
    ),
    Dataset(
        name="FP",
        title="Fei-Fei and Perona's scenes",
        images=3859,
        classes=13,
        megabytes=54,
        pixels=None,
        terms="none stated",
        citation="L. Fei-Fei and P. Perona. A Bayesian hierarchical model for learning natural "
        "scene categories. CVPR, 524-531, 2005.",
        home="http://www-cvr.ai.uiuc.edu/ponce_grp/data/",
        manifest="LS",
        naming=_NUMBERED,
        part_of="LS",
        without=("industrial", "store"),
        note="LS without industrial and store. The paper counts 3860 images.",
    ),
    Dataset(
        name="LS",
        title="15-Scene, of Lazebnik, Schmid and Ponce",
        images=4485,
        classes=15,
        megabytes=86,
        pixels=None,
        terms="none stated",
        citation="S. Lazebnik, C. Schmid and J. Ponce. Beyond bags of features: spatial pyramid "
        "matching for recognizing natural scene categories. CVPR, 2169-2178, 2006.",
        home="http://www-cvr.ai.uiuc.edu/ponce_grp/data/",
        archive=Archive(
            "https://web.archive.org/web/20070829035029/"
            "http://www-cvr.ai.uiuc.edu/ponce_grp/data/scene_categories/scene_categories.zip",
            "md5:58828019197b2ad0a7efb472e7a85c2a",
            f"{_NEVIS}/scenes15.py",
        ),
        manifest="LS",
        naming=_NUMBERED,
        note="18 images are copies of others, as published. The paper counts 4486 images. "
        "The original site is gone; the address is the Internet Archive's copy.",
    ),
    Dataset(
        name="Caltech101",
        title="Caltech 101",
        images=9144,
        classes=102,
        megabytes=132,
        pixels=None,
        terms="CC BY 4.0",
        citation="L. Fei-Fei, R. Fergus and P. Perona. One-shot learning of object categories. "
        "IEEE Transactions on Pattern Analysis and Machine Intelligence 28(4):594-611, 2006.",
        home="https://data.caltech.edu/records/mzrjq-6wc02",
        archive=Archive(
            "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip?download=1",
            "sha256:331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91",
            "tensorflow/datasets: tensorflow_datasets/datasets/caltech101/checksums.tsv",
            inner="101_ObjectCategories.tar.gz",
        ),
        manifest="Caltech101",
        naming=_NUMBERED,
        note="101 objects and the class BACKGROUND_Google, which is included.",
    ),
    Dataset(
        name="Caltech256",
        title="Caltech 256",
        images=30607,
        classes=257,
        megabytes=1183,
        pixels=None,
        terms="CC BY 4.0",
        citation="G. Griffin, A. Holub and P. Perona. Caltech-256 object category dataset. "
        "Technical report CNS-TR-2007-001, California Institute of Technology, 2007.",
        home="https://data.caltech.edu/records/nyy15-4j048",
        archive=Archive(
            "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar"
            "?download=1",
            "md5:67b4f42ca05d46448c6bb8ecd2220f6d",
            "voxel51/fiftyone: fiftyone/utils/caltech.py (address); "
            "pytorch/vision: torchvision/datasets/caltech.py (checksum)",
        ),
        note="256 objects and the class 257.clutter; the paper says 256 classes. No digests are "
        "available, so only counts can be compared.",
    ),
    Dataset(
        name="17flowers",
        title="Oxford's 17 kinds of flowers",
        images=1360,
        classes=17,
        megabytes=60,
        pixels=None,
        terms="none stated",
        citation="M.-E. Nilsback and A. Zisserman. A visual vocabulary for flower "
        "classification. CVPR, 1447-1454, 2006.",
        home="https://www.robots.ox.ac.uk/~vgg/data/flowers/17/",
        archive=Archive(
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/17/17flowers.tgz",
            "md5:b59a65d8d1a99cd66944d474e1289eab",
            f"{_NEVIS}/oxford_flowers_17.py",
        ),
        manifest="17flowers",
        naming=Naming("image_{number:04}.jpg", through=True),
        note="Published in one folder, 80 images per class in the order of their numbers.",
    ),
    Dataset(
        name="COIL20",
        title="Columbia Object Image Library, 20 objects (processed)",
        images=1440,
        classes=20,
        megabytes=10,
        pixels=(128, 128),
        terms="research use",
        citation="S. A. Nene, S. K. Nayar and H. Murase. Columbia object image library "
        "(COIL-20). Technical report CUCS-005-96, Columbia University, 1996.",
        home="https://www.cs.columbia.edu/CAVE/software/softlib/coil-20.php",
        archive=Archive(
            f"{_COLUMBIA}/coil-20/coil-20-proc.zip",
            "md5:464dec76a6abfcd00e8de6cf1e7d0acc",
            f"{_NEVIS}/coil20.py",
        ),
        manifest="COIL20",
        naming=Naming("{label}__{number}.png", first=0),
    ),
    Dataset(
        name="COIL100",
        title="Columbia Object Image Library, 100 objects",
        images=7200,
        classes=100,
        megabytes=131,
        pixels=(128, 128),
        terms="research use",
        citation="S. A. Nene, S. K. Nayar and H. Murase. Columbia object image library "
        "(COIL-100). Technical report CUCS-006-96, Columbia University, 1996.",
        home="https://www.cs.columbia.edu/CAVE/software/softlib/coil-100.php",
        archive=Archive(
            f"{_COLUMBIA}/coil-100/coil-100.zip",
            "sha256:fcb4b8b01c0778f416d8d7a09f45082c4f7075cc74743dcddd5c44307bd4afe7",
            "tensorflow/datasets: tensorflow_datasets/url_checksums/coil100.txt",
        ),
        manifest="COIL100",
        naming=Naming("{label}__{number}.png", first=0, step=5),
    ),
    Dataset(
        name="YaleB",
        title="Extended Yale face database B, cropped",
        images=2414,
        classes=38,
        megabytes=78,
        pixels=(168, 192),
        terms="research use",
        citation="A. S. Georghiades, P. N. Belhumeur and D. J. Kriegman. From few to many: "
        "illumination cone models for face recognition under variable lighting and pose. IEEE "
        "Transactions on Pattern Analysis and Machine Intelligence 23(6):643-660, 2001.",
        home="http://vision.ucsd.edu/~leekc/ExtYaleDatabase/ExtYaleB.html",
        archive=Archive(
            "http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/CroppedYale.zip",
            None,
            "Samsung/veles.znicz: samples/YaleFaces/yale_faces_config.py",
        ),
        manifest="YaleB",
        skip="_Ambient",
        note="Without the 18 .bad and the 38 _Ambient files. Publications are asked to "
        "acknowledge the Extended Yale Face Database B. No checksum of the archive is known, so "
        "the digests of its classes are compared.",
    ),
)  # fmt: skip

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
"""The data sets by name, in the paper's order."""

# Caltech256 has no manifest; its folders are named 001.ak47 to 257.clutter.
_NUMBERED_CLASS = re.compile(r"\d{3}\.[\w-]+")


def find_dataset(name: str) -> Dataset:
    """Return the data set with a name, ignoring case."""
    for dataset in DATASETS.values():
        if dataset.name.lower() == name.lower():
            return dataset
    raise ValueError(f"no data set {name!r}; choose from {', '.join(DATASETS)}")


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
    by_file = {}
    if dataset.naming is not None and dataset.naming.shows_class:
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
