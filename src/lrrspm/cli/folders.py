"""What the commands that split a labeled folder share."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from .. import config
from .._support.text import plural

if TYPE_CHECKING:
    from .._support.stages import Stages
    from ..cache import FeatureStore
    from ..evaluation import Groups
    from ..images import Labeled
    from ..pipeline import Engine


def find_training(folder: Path, path_column: str | None, label_column: str | None) -> Labeled:
    """Find the images of a folder, and warn of what would spoil training with them."""
    from ..images import find_labeled, warn_about

    found = find_labeled(folder, path_column, label_column)
    paths, labels = found.part(test=False)
    if not paths:
        raise ValueError(
            f"{folder}: has images to test with, but none to train on in a folder train"
        )
    warn_about(paths, labels)
    return found


def keep_together(
    found: Labeled,
    folder: Path,
    group: str | None,
    near_copies: bool,
    jobs: int,
    stages: Stages,
    store: FeatureStore,
    engine: str | Engine = config.ENGINE,
) -> Groups | None:
    """Return which images belong on one side of a split, if any do; warn of those on both.

    A group that is asked for replaces near copies.
    """
    import numpy as np

    from ..evaluation import count_leaks, find_groups, name_groups

    if group is not None:
        groups = name_groups(found, folder, group)
    elif near_copies:
        groups = find_groups(found.paths, found.labels, jobs, stages, store, engine)
    else:
        return None
    leaks = count_leaks(groups, np.array(found.tests))
    if leaks:
        what = "are near copies of" if groups.by == "near copy" else "are in a group with"
        warnings.warn(
            f"{len(leaks)} of {plural(sum(found.tests), 'test image')} {what} training images, "
            f"such as {found.paths[leaks[0]]}; 'lrrspm audit' lists copies",
            stacklevel=2,
        )
    return groups if groups.images else None
