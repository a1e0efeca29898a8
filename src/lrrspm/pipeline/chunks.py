"""Chunks: the unit of work. Picklable functions that read images and return arrays."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.parallel import single_blas_thread
from ..cache import same_key
from ..descriptors import Descriptor, LocalDescriptors, places
from ..descriptors.checking import check_sample, describe_checked
from ..images import ImageError, KeptImages, Pixels, has_color, read_pixels

if TYPE_CHECKING:
    from ..channels import Channel
    from ..features import Image, SpatialPyramidFeatures

_KNOWN_IMAGE = b"P6 1 1 255\n\x00\x00\x00"


@lru_cache(maxsize=1)
def compile_reading() -> None:
    """Read an image that is known to be good, so that the loops of reading are compiled.

    What fails there is the machine, and must not be blamed on the first image.
    """
    from ..images.reading import read_pixels as read

    try:
        read(BytesIO(_KNOWN_IMAGE), None)
    except ImageError as error:
        raise error.__cause__ or error from None


class Item(NamedTuple):
    """One image, by its number among all, and the numbers of the jobs to do for it.

    ``places`` are those of the image in the sample of each job, where jobs draw.
    """

    number: int
    image: Image
    jobs: tuple[int, ...]
    places: tuple[int, ...] = ()


class Outcome(NamedTuple):
    """What became of one item.

    ``arrays`` are in the order of the item's jobs, or empty where the image
    could not be read. ``seconds`` are those of reading, describing, and each job.
    """

    number: int
    arrays: list[NDArray[np.float32]]
    error: ImageError | None
    seconds: list[float]


class Sources:
    """The different ways in which channels of several features read and describe an image.

    Pixels are read once for all features that read alike, and each different
    descriptor is computed once. Files may be kept from an earlier pass. ``raw`` leaves
    pixels of 8 bits as they are, for a device.
    """

    def __init__(self, kept: KeptImages | None = None, raw: bool = False) -> None:
        self._kept, self._raw = kept, raw
        self._readers: list[tuple[SpatialPyramidFeatures, set[bool]]] = []
        self._descriptors: list[tuple[int, Descriptor, str | None]] = []
        self._reader_keys: list[Any] = []

    def add(self, features: SpatialPyramidFeatures, channel: Channel) -> int:
        """Return the number of a channel's descriptor; equal ones share one."""
        if features.reader not in self._reader_keys:
            self._reader_keys.append(features.reader)
            self._readers.append((features, set()))
        reader = self._reader_keys.index(features.reader)
        self._readers[reader][1].add(bool(channel.descriptor.color))
        wanted = channel.descriptor
        for number, (other, known, when) in enumerate(self._descriptors):
            # Keys take longer than a small image, so they are made where there may be a match.
            alike = (other, type(known), when) == (reader, type(wanted), channel.when)
            if alike and same_key(known) == same_key(wanted):
                return number
        self._descriptors.append((reader, wanted, channel.when))
        return len(self._descriptors) - 1

    def n_values(self, number: int) -> int:
        """Return the number of values of a descriptor."""
        return self._descriptors[number][1].n_values

    def check(self, number: int, index: int, image: Image, drawn: NDArray[np.float32]) -> None:
        """Raise ValueError if a descriptor's values, drawn from an image, are not finite."""
        with _naming(index, image):
            check_sample(self._descriptors[number][1], drawn)

    def describe(
        self, index: int, image: Image, wanted: set[int], seconds: list[float]
    ) -> dict[int, LocalDescriptors]:
        """Read an image and compute the wanted descriptors; adds seconds of both steps.

        A descriptor for color alone is left out where the image has none.
        """
        picked = self.pick(index, image, wanted, seconds)
        start = time.perf_counter()
        with _naming(index, image):
            found = {n: describe_checked(self._descriptors[n][1], picked[n]) for n in picked}
        seconds[1] += time.perf_counter() - start
        return found

    def pick(
        self, index: int, image: Image, wanted: set[int], seconds: list[float]
    ) -> dict[int, NDArray[np.float32]]:
        """Read an image and return the pixels that the wanted descriptors read; adds seconds.

        Those for color alone are left out where the image has none.
        """
        start = time.perf_counter()
        pixels: dict[int, Pixels] = {}
        picked = {}
        with _naming(index, image):
            for number in sorted(wanted):
                reader, descriptor, when = self._descriptors[number]
                if reader not in pixels:
                    pixels[reader] = self._read(reader, image)
                own = descriptor.pick(pixels[reader])
                if when is None or has_color(own):
                    picked[number] = own
        seconds[0] += time.perf_counter() - start
        return picked

    def _read(self, reader: int, image: Image) -> Pixels:
        features, colors = self._readers[reader]
        if features.reads_plainly:
            gray, color = False in colors, True in colors
            sides = features.max_side, features.min_side
            return read_pixels(image, sides[0], gray, color, self._kept, sides[1], self._raw)
        return features.read(image)


@contextmanager
def _naming(index: int, image: Image) -> Iterator[None]:
    """Add the number of an array to errors about it; those about files have a name."""
    try:
        yield
    except ImageError:
        raise
    except ValueError as error:
        if isinstance(image, np.ndarray):
            raise ValueError(f"image {index}: {error}") from error
        raise


class Draw(NamedTuple):
    """A job: draw random descriptors of an image."""

    source: int
    quota: int
    seed: int
    located: bool = False
    """True to add each patch's place in its image as two more columns."""


def draw_quota(n_samples: int, n_images: int, located: bool) -> int:
    """Return how many descriptors to draw from each image for about ``n_samples`` in all.

    Rounding makes that up to a third more: 72 for 54 of 36 images.

    Neighboring patches overlap, so many of few images take time and tell little: where
    descriptors will be projected there are at most 150 of an image, or 50,000 in all if
    that is more. The paper's methods project nothing, and draw all that is asked for.
    """
    if located:
        n_samples = min(n_samples, max(config.FEW_SAMPLES, config.SAMPLES_PER_IMAGE * n_images))
    return max(1, round(n_samples / n_images))


def sample_chunk(sources: Sources, draws: Sequence[Draw], items: Sequence[Item]) -> list[Outcome]:
    """Draw descriptors from the images of a chunk."""
    outcomes = []
    for item in items:
        seconds = [0.0, 0.0]
        arrays, error = [], None
        try:
            wanted = {draws[job].source for job in item.jobs}
            found = sources.describe(item.number, item.image, wanted, seconds)
            for job, place in zip(item.jobs, item.places, strict=True):
                draw = draws[job]
                if draw.source not in found:
                    columns = sources.n_values(draw.source) + 2 * draw.located
                    arrays.append(np.empty((0, columns), np.float32))
                    continue
                local = found[draw.source]
                values = local.values
                if draw.located:
                    values = np.hstack([values, places(local)])
                arrays.append(_draw(values, draw.quota, draw.seed, place))
                sources.check(draw.source, item.number, item.image, arrays[-1])
        except ImageError as failure:
            error = failure
        outcomes.append(Outcome(item.number, arrays, error, seconds))
    return outcomes


def _draw(values: NDArray[np.float32], quota: int, seed: int, place: int) -> NDArray[np.float32]:
    """Draw random rows of one image; its place among the images is part of the seed."""
    if quota >= len(values):
        return values
    rng = np.random.default_rng((seed, place))
    return values[np.sort(rng.choice(len(values), quota, replace=False))]


def encode_chunk(
    sources: Sources, channels: Sequence[tuple[int, Channel]], items: Sequence[Item]
) -> list[Outcome]:
    """Compute vectors of the images of a chunk.

    A job is a fitted channel with the number of its source.
    """
    outcomes = []
    with single_blas_thread():
        for item in items:
            seconds = [0.0] * (2 + len(channels))
            arrays, error = [], None
            try:
                wanted = {channels[job][0] for job in item.jobs}
                found = sources.describe(item.number, item.image, wanted, seconds)
                for job in item.jobs:
                    start = time.perf_counter()
                    source, channel = channels[job]
                    arrays.append(channel.vector(found[source]))
                    seconds[2 + job] = time.perf_counter() - start
            except ImageError as failure:
                error = failure
            outcomes.append(Outcome(item.number, arrays, error, seconds))
    return outcomes


def read_chunk(sources: Sources, wanted: Sequence[int], items: Sequence[Item]) -> list[Outcome]:
    """Read the images of a chunk: the pixels that the source of each job describes."""
    outcomes = []
    for item in items:
        seconds = [0.0, 0.0]
        arrays, error = [], None
        try:
            numbers = [wanted[job] for job in item.jobs]
            picked = sources.pick(item.number, item.image, set(numbers), seconds)
            arrays = [picked[number] for number in numbers]
        except ImageError as failure:
            error = failure
        outcomes.append(Outcome(item.number, arrays, error, seconds))
    return outcomes
