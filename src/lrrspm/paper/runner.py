"""Computing settings: images are read, coded and kept in memory once for many of them."""

from __future__ import annotations

import re
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..copies import digest_images
from ..datasets import load
from ..environment import forget_peak_memory, peak_memory
from ..evaluation import count_confusions, split_by_class
from ..features import SpatialPyramidFeatures, fit_all, transform_all
from ..stages import Stages
from .results import Results
from .settings import ALL_IMAGES, EVEN, Setting

# Vectors of several encoders are made while the images are read once, as far as
# their matrices fit into this many bytes.
_MEMORY = 1e9


def run(
    settings: Iterable[Setting],
    results: Results,
    root: Path,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> None:
    """Compute the settings that have no row yet, and write each row as it is made.

    Data sets that are not below ``root`` are left out. What goes wrong with a
    data set or a setting becomes a row with the error.
    """
    stages = stages or Stages()
    missing = [s for s in dict.fromkeys(settings) if results.row(s) is None]
    groups = defaultdict(list)
    for setting in missing:
        groups[setting.source].append(setting)
    done = 0
    for group in groups.values():
        try:
            images = _Images(group[0], root)
        except FileNotFoundError:
            continue
        work = _Work(images, results, n_jobs, stages)
        try:
            for _ in work.rows(group):
                done += 1
                stages.tell("results", done, len(missing))
        except (ValueError, OSError, MemoryError) as error:
            for setting in group:
                if results.row(setting) is None:
                    results.add_row(setting, error=str(error) or type(error).__name__)


class _Images:
    """The images of a source: paths, labels, class names."""

    def __init__(self, setting: Setting, root: Path) -> None:
        paths, labels = load(setting.dataset, root)
        self.paths, self.labels = np.array(paths), np.array(labels)
        if setting.images_per_class is not None:
            kept = _first_of_each_class(self.labels, setting.images_per_class)
            self.paths, self.labels = self.paths[kept], self.labels[kept]
        self.names = np.unique(self.labels)
        self._digests: NDArray[Any] | None = None

    def training(self, setting: Setting) -> NDArray[np.int64]:
        """Indices of the training images, sorted."""
        if setting.choice == EVEN:
            return _evenly_spaced(self.paths, self.labels, setting.train_per_class, setting.split)
        return split_by_class(self.labels, setting.train_per_class, setting.split_seed)

    def tested(
        self, setting: Setting, training: NDArray[np.int64], n_jobs: int | None, stages: Stages
    ) -> NDArray[np.int64]:
        """Indices of the test images: all others, or those of them without a copy in training."""
        others = np.setdiff1d(np.arange(len(self.labels)), training)
        if not setting.leave_out_copies:
            return others
        if self._digests is None:
            self._digests = np.array(digest_images(self.paths.tolist(), n_jobs, stages))
        return others[~np.isin(self._digests[others], self._digests[training])]


class _Work:
    """The computation of one group of settings over the same images."""

    def __init__(
        self, images: _Images, results: Results, n_jobs: int | None, stages: Stages
    ) -> None:
        self._images, self._results = images, results
        self._n_jobs, self._stages = n_jobs, stages
        self._last = time.perf_counter()
        forget_peak_memory()

    def rows(self, settings: Sequence[Setting]) -> Iterator[None]:
        """Compute and write one row after the other."""
        settings = [s for s in settings if self._possible(s)]
        if not settings:
            return
        learnt = self._learn_codebooks(settings)
        alike: dict[Any, list[Setting]] = defaultdict(list)
        for setting in settings:
            alike[setting.vector_key].append(setting)
        for batch in self._batches(list(alike.values())):
            features = [s[0].features(self._n_jobs, learnt[s[0].codebook_key][0]) for s in batch]
            for group, feature, (vectors, spent) in zip(
                batch, features, self._vectors(features), strict=True
            ):
                spent["codebook"] = learnt[group[0].codebook_key][1]
                for setting in group:
                    self._write(setting, feature, vectors, spent)
                    yield

    def _possible(self, setting: Setting) -> bool:
        """Whether the classes are large enough; if not, that is the setting's row."""
        try:
            self._images.training(setting)
        except ValueError as error:
            self._results.add_row(setting, error=str(error))
            return False
        return True

    def _learn_codebooks(
        self, settings: Sequence[Setting]
    ) -> dict[Any, tuple[NDArray[Any], float]]:
        """Each codebook that the settings need, and the seconds of learning it."""
        alike: dict[Any, dict[Any, Setting]] = defaultdict(dict)
        for setting in settings:
            size = (setting.codebook_size, setting.n_samples)
            alike[size].setdefault(setting.codebook_key, setting)
        learnt = {}
        for firsts in alike.values():
            features = [setting.features(self._n_jobs) for setting in firsts.values()]
            members = [self._sampled(setting) for setting in firsts.values()]
            stages = Stages(self._stages.tell)
            fit_all(features, self._images.paths.tolist(), members, stages)
            seconds = stages.seconds["codebook"] / len(features)
            for key, feature in zip(firsts, features, strict=True):
                learnt[key] = (feature.encoder_.codebook_, seconds)
        return learnt

    def _sampled(self, setting: Setting) -> NDArray[np.int64]:
        """Indices of the images that the codebook is learnt from."""
        if setting.codebook == ALL_IMAGES:
            return np.arange(len(self._images.labels))
        return self._images.training(setting)

    def _batches(self, alike: Sequence[list[Setting]]) -> Iterator[list[list[Setting]]]:
        """Settings with the same vectors, as many at a time as fit into memory together."""
        batch: list[list[Setting]] = []
        room = _MEMORY
        for group in alike:
            cells = group[0].features(None).pyramid().n_cells
            size = 4 * cells * group[0].codebook_size * len(self._images.labels)
            if batch and size > room:
                yield batch
                batch, room = [], _MEMORY
            batch.append(group)
            room -= size
        yield batch

    def _vectors(
        self, features: Sequence[SpatialPyramidFeatures]
    ) -> Iterator[tuple[NDArray[np.float32], dict[str, float]]]:
        """Vectors of all images for each of the features, and the seconds they took."""
        for feature in features:
            # With the codebook given nothing is learnt from what it is fitted to.
            feature.encoder_ = feature.new_encoder().fit(feature.encoder.codebook)
        stages = Stages(self._stages.tell)
        encode: list[float] = []
        paths = self._images.paths.tolist()
        matrices = transform_all(features, paths, stages, encode_seconds=encode)
        shared = {name: stages.seconds[name] for name in ("read", "sift")}
        for vectors, seconds in zip(matrices, encode, strict=True):
            yield vectors, {**shared, "encode": seconds}

    def _write(
        self,
        setting: Setting,
        feature: SpatialPyramidFeatures,
        vectors: NDArray[np.float32],
        seconds: dict[str, float],
    ) -> None:
        images = self._images
        training = images.training(setting)
        tested = images.tested(setting, training, self._n_jobs, self._stages)
        classifier = setting.classifier(self._n_jobs)
        classifier.features_ = feature
        stages = Stages()
        with stages.timed("train"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            classifier.fit_svm(vectors[training], images.labels[training])
        with stages.timed("test"):
            predicted = classifier.svm_.predict(vectors[tested])
        confusion = count_confusions(images.names, images.labels[tested], predicted)
        right, counts = np.diag(confusion), confusion.sum(axis=1)
        now = time.perf_counter()
        self._results.add_row(
            setting,
            accuracy=float(np.mean(100 * right / counts)),
            overall=float(100 * right.sum() / counts.sum()),
            per_class={
                str(name): [int(a), int(b)]
                for name, a, b in zip(images.names, right, counts, strict=True)
            },
            images=len(images.labels),
            seconds={k: round(v, 4) for k, v in {**seconds, **stages.seconds}.items()},
            wall=round(now - self._last, 3),
            peak_mb=peak_memory(),
            **({"warnings": [str(one.message) for one in caught]} if caught else {}),
        )
        self._last = now


def _first_of_each_class(labels: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Indices of at most so many images of each class, spread over the class."""
    chosen = []
    for name in np.unique(labels):
        members = np.flatnonzero(labels == name)
        places = np.linspace(0, len(members) - 1, min(count, len(members))).round().astype(int)
        chosen.append(members[places])
    return np.concatenate(chosen)


def _evenly_spaced(
    paths: NDArray[Any], labels: NDArray[Any], count: int, split: int
) -> NDArray[np.int64]:
    """Every n-th image of each class in the order of the numbers in their names.

    The split is where it starts. On COIL these are views at equal angles.
    """
    chosen = []
    for name in np.unique(labels):
        members = np.flatnonzero(labels == name)
        if len(members) <= count:
            raise ValueError(f"class '{name}' has {len(members)} images; too few for {count}")
        numbers = [[int(n) for n in re.findall(r"\d+", Path(paths[i]).stem)] for i in members]
        ordered = members[sorted(range(len(members)), key=numbers.__getitem__)]
        places = (split + np.arange(count) * len(members) // count) % len(members)
        chosen.append(ordered[places])
    return np.sort(np.concatenate(chosen))
