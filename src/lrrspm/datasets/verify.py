"""Compare a data set with what was published, image by image and class by class."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from ..images import ImageError, group_copies, image_digest, walk_images
from .catalogue import DATASETS, Dataset, Published, file_names, find_dataset, labeller, published
from .folders import Place, class_digest, differences, find_place, remedy, shorten

EQUAL = "equal"
COUNTED = "counted"
MISSING = "missing"
BROKEN = "broken files"
TOO_FEW = "too few"
TOO_MANY = "too many"
CHANGED = "other content"


@dataclass(frozen=True)
class ClassReport:
    """One class: how many images it has and should have, and what that makes it.

    ``missing`` and ``extra`` are names of files, where the published names
    follow a rule; the numbers hold in any case.
    """

    label: str
    images: int
    published: int | None
    state: str
    missing: list[str]
    extra: list[str]


@dataclass(frozen=True)
class Report:
    """What :func:`verify` found.

    Attributes
    ----------
    good : bool
        Every image can be read, every class has its number of images and,
        where digests are published, every class equals the published one.
    equal : bool or None
        Whether every class equals the published one; None where no digests
        are known.
    summary : list of str
        What is wrong, one sentence each.
    strays : list of str
        Pictures in the folder that belong to no class; nobody reads them.
    broken : dict of str to str
        Files that cannot be decoded, and why.
    copies : list of list of str
        Pictures that are the same; published sets have some.
    """

    name: str
    folder: str
    good: bool
    equal: bool | None
    images: int
    summary: list[str]
    classes: list[ClassReport]
    strays: list[str]
    broken: dict[str, str]
    copies: list[list[str]]


def verify(
    name: str,
    root: str | os.PathLike[str],
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> Report:
    """Decode every file of a data set and compare each class with the published one."""
    dataset = find_dataset(name)
    place = find_place(dataset, Path(root))
    if not place.folder.is_dir():
        raise FileNotFoundError(f"{place.folder}: no data set {dataset.name}; {remedy(dataset)}")
    return check(dataset, place, n_jobs, stages)


def check(
    dataset: Dataset, place: Place, n_jobs: int | None = None, stages: Stages | None = None
) -> Report:
    """As :func:`verify`, of a folder that need not have its final name."""
    found = place.images(dataset)
    paths = [path for _, path in found]
    digests = _digest_or_reason(paths, n_jobs, stages or Stages())
    by_class: dict[str, dict[str, str | ImageError]] = defaultdict(dict)
    for (label, path), digest in zip(found, digests, strict=True):
        by_class[label][path] = digest
    known, names = published(dataset), file_names(dataset)
    classes = [
        _compare(label, by_class.get(label, {}), known.get(label), names.get(label, []))
        for label in known or sorted(by_class)
    ]
    broken = {p: d.reason for p, d in zip(paths, digests, strict=True) if isinstance(d, ImageError)}
    readable = [i for i, digest in enumerate(digests) if isinstance(digest, str)]
    copies = group_copies([str(digests[i]) for i in readable])
    summary = _summarize(dataset, classes, by_class) + [
        f"{_relative(path, place.folder)} cannot be used: {reason}"
        for path, reason in broken.items()
    ]
    return Report(
        name=dataset.name,
        folder=str(place.folder),
        good=not summary,
        equal=all(c.state == EQUAL for c in classes) if known else None,
        images=len(paths),
        summary=summary,
        classes=classes,
        strays=_strays(dataset, place),
        broken={_relative(path, place.folder): reason for path, reason in broken.items()},
        copies=[[_relative(paths[readable[i]], place.folder) for i in group] for group in copies],
    )


def _digest_or_reason(
    paths: list[str], n_jobs: int | None, stages: Stages
) -> list[str | ImageError]:
    def digest(path: str) -> str | ImageError:
        try:
            return image_digest(path)
        except ImageError as error:
            return error

    with workers(n_jobs) as executor:
        return list(
            stages.track("reading images", ordered_map(digest, paths, executor), len(paths))
        )


def _compare(
    label: str,
    found: dict[str, str | ImageError],
    known: Published | None,
    names: list[str],
) -> ClassReport:
    digests = [digest for digest in found.values() if isinstance(digest, str)]
    if known is None:
        state = COUNTED
    elif not found:
        state = MISSING
    elif class_digest(digests) == known.sha256 and len(digests) == len(found):
        state = EQUAL
    elif len(found) != known.images:
        state = TOO_FEW if len(found) < known.images else TOO_MANY
    else:
        state = CHANGED
    if len(digests) < len(found) and state in (COUNTED, CHANGED):
        state = BROKEN
    present = {os.path.basename(path) for path in found}
    # A copy with names of its own says nothing about the published ones.
    speaks = state in (TOO_FEW, TOO_MANY) and 2 * len(present & set(names)) >= len(present)
    return ClassReport(
        label=label,
        images=len(found),
        published=known.images if known else None,
        state=state,
        missing=[name for name in names if name not in present] if speaks else [],
        extra=sorted(present - set(names)) if speaks else [],
    )


def _summarize(
    dataset: Dataset, classes: list[ClassReport], by_class: dict[str, dict[str, str | ImageError]]
) -> list[str]:
    if not published(dataset):
        return differences(dataset, Counter({c.label: c.images for c in classes}))
    changed = [report.label for report in classes if report.state == CHANGED]
    wrong = []
    if changed:
        paths = [path for label in changed for path in by_class[label]]
        kind = _kind_of_copy(dataset, paths)
        if 2 * len(changed) > len(classes):
            wrong.append(
                f"a {kind} copy: {len(changed)} of {len(classes)} classes have the published "
                "number of images, but not their content"
            )
        else:
            wrong.append(
                f"{shorten(changed)}: the right number of images, but not the published ones"
            )
    missing = [report.label for report in classes if report.state == MISSING]
    if missing:
        wrong.append(f"no images of {shorten(missing, most=20)}")
    for report in classes:
        if report.state in (TOO_FEW, TOO_MANY):
            parts = [f"{report.label} has {report.images} images instead of {report.published}"]
            parts += [f"missing {shorten(report.missing)}"] if report.missing else []
            parts += [f"extra {shorten(report.extra)}"] if report.extra else []
            wrong.append("; ".join(parts))
    return wrong


def _kind_of_copy(dataset: Dataset, paths: list[str]) -> str:
    """What was done to pictures that are not the published ones, as far as sizes tell."""
    sizes = set()
    for path in paths:
        with Image.open(path) as picture:
            sizes.add(picture.size)
    one_size = f" (all {'{} x {}'.format(*next(iter(sizes)))})" if len(sizes) == 1 else ""
    if dataset.pixels is not None:
        return "re-encoded" if sizes == {dataset.pixels} else f"resized{one_size}"
    if one_size and len(paths) > dataset.images // 2:
        return f"resized{one_size}"
    return "resized or re-encoded"


def _strays(dataset: Dataset, place: Place) -> list[str]:
    """Pictures that belong to no class, of this set or of the one it is a part of."""
    label_of = labeller(DATASETS[dataset.part_of] if dataset.part_of else dataset, place.folders)
    return sorted(
        _relative(path, place.folder)
        for path in walk_images(place.folder)
        if label_of(Path(path).relative_to(place.folder)) is None
        and not (dataset.skip and dataset.skip in os.path.basename(path))
    )


def _relative(path: str, folder: Path) -> str:
    return str(Path(path).relative_to(folder))
