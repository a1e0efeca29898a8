"""Compute settings; images are read and coded once for many of them."""

from __future__ import annotations

import hashlib
import os
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._support.environment import forget_peak_memory, peak_memory
from .._support.stages import Stages
from .._support.text import plural
from ..datasets import load, verify
from ..evaluation import class_accuracies, count_confusions, split_by_class
from ..images import digest_images
from ..pipeline import encode_images, fit_features, open_engine
from .results import Results, ResultsError
from .settings import ALL_IMAGES, EVEN, CodebookKey, Setting

T = TypeVar("T")

# Bytes of codebook samples or vectors to compute in one pass over the images.
_MEMORY = 1e9
_BYTES_PER_DESCRIPTOR = 4 * 128


def run(
    settings: Iterable[Setting],
    results: Results,
    root: Path,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> None:
    """Compute the settings that have no row yet, writing each row as it is done.

    Rows from other images are computed again. Data sets that are not below
    ``root`` are skipped. An error becomes the row of its setting.
    """
    stages = stages or Stages()
    groups: dict[Any, list[Setting]] = defaultdict(list)
    for setting in dict.fromkeys(settings):
        groups[setting.source].append(setting)
    work = []
    for group in groups.values():
        try:
            images = Images(group[0], root)
        except FileNotFoundError:
            continue
        missing = [s for s in group if not _has_row(results, s, images.fingerprint)]
        if missing:
            work.append((images, missing))
    names = dict.fromkeys(images.dataset for images, _ in work)
    published = {name: _is_published(name, root, n_jobs, stages) for name in names}
    done, total = 0, sum(len(missing) for _, missing in work)
    for images, missing in work:
        try:
            images.published = published[images.dataset]
            for _ in _Work(images, results, n_jobs, stages).rows(missing):
                done += 1
                stages.tell("results", done, total)
        except ResultsError:
            raise
        except (ValueError, OSError, MemoryError) as error:
            for setting in missing:
                if not _has_row(results, setting, images.fingerprint):
                    results.add_row(setting, error=str(error) or type(error).__name__)


def _has_row(results: Results, setting: Setting, fingerprint: str) -> bool:
    return (results.row(setting) or {}).get("data") == fingerprint


def _is_published(name: str, root: Path, n_jobs: int | None, stages: Stages) -> bool:
    """Return True if a data set equals the published one; warn if not."""
    good = verify(name, root, n_jobs, stages).good
    if not good:
        warnings.warn(
            f"{name} is not the published set, so its numbers are not comparable with the paper's; "
            f"run 'lrrspm datasets verify {name}' for the differences",
            stacklevel=3,
        )
    return good


class Images:
    """The images of a source.

    Attributes
    ----------
    dataset : str
    paths, labels, names : ndarray of str
        Paths and labels of the images, and the names of the classes.
    fingerprint : str
        Changes with the files, their names or sizes.
    published : bool
        True if the data set is the published one.
    """

    def __init__(self, setting: Setting, root: Path) -> None:
        paths, labels = map(np.array, load(setting.dataset, root))
        kept = _part_of_each_class(labels, setting.images_per_class, setting.max_classes)
        self.dataset: str = setting.dataset
        self.paths: NDArray[Any] = paths[kept]
        self.labels: NDArray[Any] = labels[kept]
        self.names: NDArray[Any] = np.unique(self.labels)
        files = (
            f"{label}/{os.path.basename(path)}:{os.stat(path).st_size}"
            for path, label in zip(self.paths.tolist(), self.labels.tolist(), strict=True)
        )
        content = "\n".join(files).encode("utf-8", "replace")
        self.fingerprint: str = hashlib.sha256(content).hexdigest()
        self.published = True
        self._digests: NDArray[Any] | None = None

    def training(self, setting: Setting) -> NDArray[np.int64]:
        """Return the indices of the training images, sorted."""
        if setting.choice == EVEN:
            return _evenly_spaced(self.paths, self.labels, setting.train_per_class, setting.split)
        return split_by_class(self.labels, setting.train_per_class, setting.split_seed)

    def tested(
        self, setting: Setting, training: NDArray[np.int64], n_jobs: int | None, stages: Stages
    ) -> NDArray[np.int64]:
        """Return the indices of the test images: all others, or those without a training copy."""
        others = np.setdiff1d(np.arange(len(self.labels)), training)
        if not setting.leave_out_copies:
            return others
        if self._digests is None:
            self._digests = np.array(digest_images(self.paths.tolist(), n_jobs, stages))
        return others[~np.isin(self._digests[others], self._digests[training])]


class _Work:
    """Computation of one group of settings over the same images."""

    def __init__(
        self, images: Images, results: Results, n_jobs: int | None, stages: Stages
    ) -> None:
        self._images, self._results = images, results
        self._n_jobs, self._stages = n_jobs, stages
        self._last = time.perf_counter()
        forget_peak_memory()

    def rows(self, settings: Sequence[Setting]) -> Iterator[None]:
        """Compute and write rows one by one."""
        settings = [s for s in settings if self._possible(s)]
        learned = self.learn_codebooks(settings)
        alike: dict[Any, list[Setting]] = defaultdict(list)
        for setting in settings:
            alike[setting.vector_key].append(setting)
        sizes = [_vector_bytes(group[0]) * len(self._images.labels) for group in alike.values()]
        for batch in _batches(list(alike.values()), sizes):
            codebooks = [learned[group[0].codebook_key] for group in batch]
            for group, (vectors, seconds) in zip(
                batch, self._vectors([g[0] for g in batch], codebooks), strict=True
            ):
                for setting in group:
                    self._write(setting, vectors, seconds)
                    yield

    def _possible(self, setting: Setting) -> bool:
        """Return True if the classes are large enough; if not, write that as the row."""
        try:
            self._images.training(setting)
        except ValueError as error:
            self._results.add_row(setting, error=str(error))
            return False
        return True

    def learn_codebooks(
        self, settings: Sequence[Setting]
    ) -> dict[CodebookKey, tuple[NDArray[Any], float]]:
        """Return each codebook that the settings need, and the seconds to learn it."""
        firsts: dict[CodebookKey, Setting] = {}
        for setting in settings:
            firsts.setdefault(setting.codebook_key, setting)
        # Codebooks of the same size and sample take about the same time.
        order = sorted(firsts, key=lambda key: (key.size, key.n_samples))
        learned = {}
        for batch in _batches(order, [key.n_samples * _BYTES_PER_DESCRIPTOR for key in order]):
            features = [firsts[key].codebook_features(self._n_jobs) for key in batch]
            members = [self._sampled(firsts[key]) for key in batch]
            stages = Stages(self._stages.tell)
            with open_engine(self._n_jobs) as engine:
                fit_features(features, self._images.paths.tolist(), members, engine, stages)
            # Work grows with atoms and descriptors.
            costs = np.array([key.size * key.n_samples for key in batch], np.float64)
            seconds = stages.seconds["codebook"] * costs / costs.sum()
            for key, feature, share in zip(batch, features, seconds.tolist(), strict=True):
                learned[key] = (feature.channels_[0].encoder_.codebook_, share)
        return learned

    def _sampled(self, setting: Setting) -> NDArray[np.int64]:
        """Return the indices of the images that the codebook is learned from."""
        if setting.codebook == ALL_IMAGES:
            return np.arange(len(self._images.labels))
        return self._images.training(setting)

    def _vectors(
        self, settings: Sequence[Setting], codebooks: Sequence[tuple[NDArray[Any], float]]
    ) -> Iterator[tuple[NDArray[np.float32], dict[str, float]]]:
        """Yield the vectors of all images for each setting, and the seconds they took."""
        features = [
            setting.features(self._n_jobs, codebook)
            for setting, (codebook, _) in zip(settings, codebooks, strict=True)
        ]
        stages = Stages(self._stages.tell)
        with open_engine(self._n_jobs) as engine:
            found = encode_images(features, self._images.paths.tolist(), engine, stages)
        shared = {"read": stages.seconds["read"], "sift": stages.seconds["describe"]}
        for vectors, seconds, (_, learning) in zip(
            found.matrices, found.seconds, codebooks, strict=True
        ):
            yield vectors, {**shared, "codebook": learning, "encode": seconds}

    def _write(
        self, setting: Setting, vectors: NDArray[np.float32], seconds: dict[str, float]
    ) -> None:
        """Train and test on one split, and write the row."""
        images = self._images
        training = images.training(setting)
        tested = images.tested(setting, training, self._n_jobs, self._stages)
        svm = setting.classifier(self._n_jobs).new_svm()
        stages = Stages()
        with stages.timed("train"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            svm.fit(vectors[training], images.labels[training])
        with stages.timed("test"):
            predicted = svm.predict(vectors[tested])
        confusion = count_confusions(images.names, images.labels[tested], predicted)
        right, counts = np.diag(confusion), confusion.sum(axis=1)
        now = time.perf_counter()
        self._results.add_row(
            setting,
            accuracy=float(np.nanmean(class_accuracies(confusion))),
            overall=float(100 * right.sum() / counts.sum()),
            per_class={
                str(name): [int(a), int(b)]
                for name, a, b in zip(images.names, right, counts, strict=True)
            },
            images=len(images.labels),
            data=images.fingerprint,
            seconds={k: round(v, 4) for k, v in {**seconds, **stages.seconds}.items()},
            wall=round(now - self._last, 3),
            peak_mb=peak_memory(),
            **({} if images.published else {"other_data": True}),
            **({"warnings": [str(one.message) for one in caught]} if caught else {}),
        )
        self._last = now


def _vector_bytes(setting: Setting) -> int:
    (channel,) = setting.classifier(None).new_channels()
    return 4 * channel.pyramid.n_cells * setting.codebook_size


def _batches(items: Sequence[T], sizes: Sequence[int]) -> Iterator[list[T]]:
    """Group items in order, as many as fit into memory together, at least one."""
    batch: list[T] = []
    room = _MEMORY
    for item, size in zip(items, sizes, strict=True):
        if batch and size > room:
            yield batch
            batch, room = [], _MEMORY
        batch.append(item)
        room -= size
    if batch:
        yield batch


def _part_of_each_class(
    labels: NDArray[Any], images: int | None, classes: int | None
) -> NDArray[np.int64]:
    """Return indices of at most so many images per class, evenly spread, of so many classes."""
    chosen = [np.empty(0, np.int64)]
    for name in np.unique(labels)[:classes]:
        members = np.flatnonzero(labels == name)
        count = len(members) if images is None else min(images, len(members))
        places = np.linspace(0, len(members) - 1, count).round().astype(int)
        chosen.append(members[places])
    return np.concatenate(chosen)


def _evenly_spaced(
    paths: NDArray[Any], labels: NDArray[Any], count: int, split: int
) -> NDArray[np.int64]:
    """Return every n-th image of each class, ordered by the numbers in their names.

    The split is the offset. On COIL these are views at equal angles.
    """
    chosen = []
    for name in np.unique(labels):
        members = np.flatnonzero(labels == name)
        if len(members) <= count:
            images = plural(len(members), "image")
            raise ValueError(f"class '{name}' has {images}; too few for {count}")
        numbers = [[int(n) for n in re.findall(r"\d+", Path(paths[i]).stem)] for i in members]
        ordered = members[sorted(range(len(members)), key=numbers.__getitem__)]
        places = (split + np.arange(count) * len(members) // count) % len(members)
        chosen.append(ordered[places])
    return np.sort(np.concatenate(chosen))
