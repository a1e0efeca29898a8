"""Images that cannot be read: left out as if they had never been there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .._support.stages import Stages
from .._support.text import plural
from .results import Skipped

R = TypeVar("R")

RESTART = "restart"
"""The stage of work that was lost, since it met images that cannot be read."""


def without_unreadable(
    work: Callable[[NDArray[np.int64], bool], tuple[R | None, dict[int, str]]],
    paths: Sequence[str],
    labels: Sequence[str],
    max_skipped: float,
    stages: Stages,
) -> tuple[R, list[Skipped]]:
    """Do work as if the images that cannot be read had never been there.

    How many descriptors an image gives, and who is in which split, depends on
    the number of images. So work that meets unreadable ones starts again
    without them; as long as all are readable that costs nothing. The seconds
    until then are a stage of their own.

    Parameters
    ----------
    work : callable
        Gets the indices of the images to use, and whether to skip; returns a
        result, or None with the unreadable images by their place among these.
    max_skipped : float
        Share of the images that may be left out; 0 has the first one raise.
    """
    y = np.asarray(labels)
    skipped: dict[int, str] = {}
    while True:
        kept = np.array([i for i in range(len(paths)) if i not in skipped])
        before = dict(stages.seconds)
        try:
            result, bad = work(kept, max_skipped > 0)
        except ValueError as error:
            if not skipped:
                raise
            # The missing images may be the reason.
            raise ValueError(
                f"{error} (left out {plural(len(skipped), 'unreadable image')}: "
                f"{_list(paths, skipped)})"
            ) from error
        if result is not None:
            return result, [Skipped(paths[i], skipped[i]) for i in sorted(skipped)]
        stages.set_apart(before, RESTART)
        skipped.update({int(kept[place]): reason for place, reason in bad.items()})
        _check_share(paths, skipped, max_skipped)
        lost = sorted(set(y[kept].tolist()) - set(np.delete(y[kept], sorted(bad)).tolist()))
        if lost:
            warnings.warn(
                f"left out classes without readable images: {', '.join(lost)}", stacklevel=2
            )


def _list(paths: Sequence[str], skipped: dict[int, str]) -> str:
    few = sorted(skipped)[:5]
    more = f"; and {len(skipped) - len(few)} more" if len(skipped) > len(few) else ""
    return "; ".join(f"{paths[i]}: {skipped[i]}" for i in few) + more


def _check_share(paths: Sequence[str], skipped: dict[int, str], limit: float) -> None:
    """Raise where too many images cannot be read."""
    if len(skipped) <= limit * len(paths) and len(skipped) < len(paths):
        return
    none = len(skipped) == len(paths)
    beyond = "" if none else f", more than {100 * limit:g} %"
    advice = "" if none else ", or use --on-error skip"
    raise ValueError(
        f"{len(skipped)} of {plural(len(paths), 'image')} cannot be read{beyond}: "
        f"{_list(paths, skipped)}; fix or remove them{advice}"
    )
