"""Pictures that occur more than once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from .._support.parallel import ordered_map, workers
from .._support.stages import Stages
from .reading import image_digest


def digest_images(
    paths: Sequence[str], n_jobs: int | None = None, stages: Stages | None = None
) -> list[str]:
    """The :func:`lrrspm.images.image_digest` of each file."""
    stages = stages or Stages()
    with workers(n_jobs) as executor:
        digests = ordered_map(image_digest, paths, executor)
        return list(stages.track("comparing images", digests, len(paths)))


def group_copies(digests: Sequence[Hashable]) -> list[list[int]]:
    """Indices of equal digests, two or more together, in order of their first."""
    places = defaultdict(list)
    for index, digest in enumerate(digests):
        places[digest].append(index)
    return [group for group in places.values() if len(group) > 1]
