"""Download a data set, unpack it and put it in its place, or leave nothing there."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import warnings
from collections import Counter
from pathlib import Path

from .._support.stages import Stages
from .catalogue import Archive, Dataset, find_dataset, labeller
from .download import UnreachableError, check_archive, download
from .folders import Place, differences, forget, shorten
from .unpack import Limits, unpack
from .verify import check


def fetch(
    name: str,
    root: str | os.PathLike[str],
    archive: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> Path:
    """Download a data set and lay it out as class folders.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`. OT and FP are parts of LS: that is fetched.
    root : path
        The data root; the set becomes ``root/NAME``.
    archive : path or None
        The published archive, downloaded by other means.

    Returns
    -------
    Path
        The folder, with its final name only when it is complete. If it was
        there before, nothing is done.

    Notes
    -----
    The archive's checksum says whether it is the published one. Where none
    is known, the digests of the classes decide.
    """
    stages = stages or Stages()
    dataset = find_dataset(name)
    if dataset.part_of is not None:
        dataset = find_dataset(dataset.part_of)
    root = Path(root)
    target = root / dataset.name
    if not target.exists():
        try:
            _fetch(dataset, target, None if archive is None else Path(archive), n_jobs, stages)
        except UnreachableError as error:
            raise UnreachableError(f"{error}; {_by_hand(dataset)}") from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise OSError(
                f"{root}: the disk is full; {dataset.name} needs about "
                f"{2 * dataset.megabytes} MB while it is fetched. Free some space, or give "
                "another --data-dir; the download goes on where it stopped"
            ) from error
    forget(dataset.name, root)
    return target


def _fetch(
    dataset: Dataset, target: Path, given: Path | None, n_jobs: int | None, stages: Stages
) -> None:
    archive = _archive(dataset)
    target.parent.mkdir(parents=True, exist_ok=True)
    if given is not None:
        check_archive(archive, given)
        _lay_out(dataset, given, target, n_jobs, stages)
        return
    downloads = target.parent / ".downloads" / dataset.name
    downloads.mkdir(parents=True, exist_ok=True)
    file = download(archive, downloads, stages)
    try:
        _lay_out(dataset, file, target, n_jobs, stages)
    except ValueError:
        file.unlink()  # it would be no better the next time
        raise
    shutil.rmtree(downloads, ignore_errors=True)
    with contextlib.suppress(OSError):  # another set's download may wait there
        downloads.parent.rmdir()


def _archive(dataset: Dataset) -> Archive:
    if dataset.archive is None:
        raise ValueError(f"{dataset.name} has no archive of its own")
    return dataset.archive


def _lay_out(
    dataset: Dataset, file: Path, target: Path, n_jobs: int | None, stages: Stages
) -> None:
    """Unpack beside the target, check, and rename."""
    archive = _archive(dataset)
    temporary = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
    temporary.mkdir()
    try:
        # An archive has little besides the pictures: annotations, scripts, lists.
        limits = Limits(2 * dataset.images + 1000, 3_000_000 * dataset.megabytes)
        unpack(file, temporary, labeller(dataset), limits, archive.inner, dataset.images, stages)
        _compare(dataset, archive, temporary, n_jobs, stages)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _compare(
    dataset: Dataset, archive: Archive, folder: Path, n_jobs: int | None, stages: Stages
) -> None:
    """Refuse what an archive without a checksum held, unless it is the published set."""
    place = Place(folder)
    wrong = differences(dataset, Counter(label for label, _ in place.images(dataset)))
    if archive.checksum is not None:
        if wrong:
            warnings.warn(f"{dataset.name}: {shorten(wrong)}", stacklevel=2)
        return
    if not wrong:
        wrong = check(dataset, place, n_jobs, stages).summary
    if wrong:
        raise ValueError(
            f"{archive.address}: not the published {dataset.name}: {shorten(wrong)}; if you want "
            f"it all the same, unpack it yourself and use 'lrrspm datasets add {dataset.name} DIR'"
        )


def _by_hand(dataset: Dataset) -> str:
    return (
        "without a network, get that file on another machine and run 'lrrspm datasets fetch "
        f"{dataset.name} --archive FILE', or use a folder that you have with 'lrrspm datasets "
        f"add {dataset.name} DIR'"
    )
