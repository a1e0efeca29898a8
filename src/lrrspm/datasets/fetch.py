"""Download a data set, unpack it and move it into place, or leave nothing behind."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import warnings
from pathlib import Path

from .._support.stages import Stages
from .catalogue import Archive, Dataset, find_dataset, labeler
from .download import UnreachableError, download, mismatch
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
    """Download a data set and unpack it into class folders.

    The archive must have the published checksum or, if none is known, its
    classes the published digests.

    Parameters
    ----------
    name : str
        One of :data:`DATASETS`. OT and FP are parts of LS, which is fetched.
    root : path
        The data root; the set becomes ``root/NAME``.
    archive : path or None
        The published archive, if it was downloaded by other means.

    Returns
    -------
    Path
        The folder, which gets its final name only once it is complete. An
        existing folder is left alone.
    """
    dataset = find_dataset(name)
    if dataset.part_of is not None:
        dataset = find_dataset(dataset.part_of)
    root = Path(root)
    target = root / dataset.name
    if not target.exists():
        given = None if archive is None else Path(archive)
        try:
            _fetch(dataset, target, given, n_jobs, stages or Stages())
        except UnreachableError as error:
            raise UnreachableError(
                f"{error}; without a network, download that file on another machine and run "
                f"'lrrspm datasets fetch {dataset.name} --archive FILE', or use a folder that you "
                f"already have with 'lrrspm datasets add {dataset.name} DIR'"
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise OSError(
                f"{root}: the disk is full; fetching {dataset.name} needs about "
                f"{2 * dataset.megabytes} MB. Free some space, or use another --data-dir; an "
                "interrupted download resumes"
            ) from error
    forget(dataset.name, root)
    return target


def _fetch(
    dataset: Dataset, target: Path, given: Path | None, n_jobs: int | None, stages: Stages
) -> None:
    archive = dataset.archive
    assert archive is not None  # only parts of another set have none
    target.parent.mkdir(parents=True, exist_ok=True)
    if given is not None:
        _check_given(archive, given)
        _lay_out(dataset, archive, given, target, n_jobs, stages)
        return
    downloads = target.parent / ".downloads" / dataset.name
    downloads.mkdir(parents=True, exist_ok=True)
    file = download(archive, downloads, 2_000_000 * dataset.megabytes, stages)
    try:
        _lay_out(dataset, archive, file, target, n_jobs, stages)
    except ValueError:
        file.unlink()  # unpacking it again would fail again
        raise
    shutil.rmtree(downloads, ignore_errors=True)
    with contextlib.suppress(OSError):  # not empty while another set has a partial download
        downloads.parent.rmdir()


def _check_given(archive: Archive, file: Path) -> None:
    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file")
    found = mismatch(archive, file)
    if found:
        raise ValueError(
            f"{file}: not the published {archive.file_name}. {found}; to use it anyway, unpack it "
            "yourself and run 'lrrspm datasets add'"
        )


def _lay_out(
    dataset: Dataset,
    archive: Archive,
    file: Path,
    target: Path,
    n_jobs: int | None,
    stages: Stages,
) -> None:
    """Unpack next to the target, check, and rename."""
    temporary = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(temporary, ignore_errors=True)  # left by a killed run
    temporary.mkdir()
    try:
        # An archive holds little besides the images: annotations, scripts, lists.
        limits = Limits(2 * dataset.images + 1000, 3_000_000 * dataset.megabytes)
        unpack(file, temporary, labeler(dataset), limits, archive.inner, dataset.images, stages)
        _compare(dataset, archive, Place(temporary), n_jobs, stages)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _compare(
    dataset: Dataset, archive: Archive, place: Place, n_jobs: int | None, stages: Stages
) -> None:
    """Warn about wrong counts; without a checksum, refuse anything but the published set."""
    wrong = differences(dataset, place.counts(dataset))
    if archive.checksum is not None:
        if wrong:
            warnings.warn(f"{dataset.name}: {shorten(wrong)}", stacklevel=2)
        return
    wrong = wrong or check(dataset, place, n_jobs, stages).summary
    if wrong:
        raise ValueError(
            f"{archive.address}: not the published {dataset.name}: {shorten(wrong)}; to use it "
            f"anyway, unpack it yourself and run 'lrrspm datasets add {dataset.name} DIR'"
        )
