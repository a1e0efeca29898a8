"""Everything that determines one result: equal settings have equal accuracies."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .. import config
from ..cache import same_key
from ..channels import Channel
from ..classifier import ImageClassifier
from ..descriptors import SIFT
from ..encoders import LRREncoder, VQEncoder
from ..evaluation import split_seeds
from ..features import SpatialPyramidFeatures
from ..methods import find_method
from .variants import vary

ALL_IMAGES = "all images"
TRAINING_IMAGES = "training images"
RANDOM, EVEN = "random", "evenly spaced"

CODE = 1
"""Version of the code behind results: raised by a change that gives a setting another accuracy.

Results record it, and older ones are named; ``tests/paper/test_code.py`` pins the numbers of this
version.
"""


@cache
def _is_low_rank(method: str) -> bool:
    """Return True for methods with the parameters of low-rank codes."""
    (channel,) = find_method(method).channels()
    return isinstance(channel.encoder, LRREncoder)


class CodebookKey(NamedTuple):
    """Everything that determines a codebook, besides the source of its descriptors."""

    seed: int
    size: int
    n_samples: int
    split: tuple[Any, ...] | None
    """How its images were chosen; None means all images."""


@dataclass(frozen=True)
class Setting:
    """One split of one experiment.

    Attributes
    ----------
    dataset, method : str
    train_per_class, split : int
        Training images per class, and the index of the split, from 0.
    codebook : str
        ``ALL_IMAGES`` (one for all splits, as the authors did) or
        ``TRAINING_IMAGES`` (one per split).
    codebook_size, n_samples : int
    regularization, threshold, normalize_codes
        For LrrSPM; None for the other methods.
    C : float
    norm : str or None
        Norm of the vectors, if not the method's own.
    max_side, step, patch_size
        See :func:`lrrspm.read_image` and :func:`lrrspm.dense_sift`.
    choice : str
        How training images are chosen: ``RANDOM``, or ``EVEN``, evenly spaced
        by the numbers in their names.
    leave_out_copies : bool
        Do not test on images that have a copy among the training images.
    images_per_class, max_classes : int or None
        Limits for a quick run.
    variant : str
        One of :data:`lrrspm.paper.variants.VARIANTS`, or empty.
    seed : int
        Seed of the splits and everything else.
    codebook_seed : int or None
        Separate seed for the codebook.
    """

    dataset: str
    train_per_class: int
    split: int = 0
    method: str = config.PAPER_METHOD
    codebook: str = ALL_IMAGES
    codebook_size: int = config.CODEBOOK_SIZE
    n_samples: int = config.N_SAMPLES
    regularization: float | None = config.REGULARIZATION
    threshold: float | None = config.THRESHOLD
    normalize_codes: bool | None = False
    C: float = config.C
    norm: str | None = None
    max_side: int | None = config.MAX_SIDE
    step: int = config.STEP
    patch_size: int = config.PATCH_SIZE
    choice: str = RANDOM
    leave_out_copies: bool = False
    images_per_class: int | None = None
    max_classes: int | None = None
    variant: str = ""
    seed: int = config.SEED
    codebook_seed: int | None = None

    def __post_init__(self) -> None:
        # Parameters that a method ignores must not distinguish its results.
        if not _is_low_rank(self.method):
            for name in ("regularization", "threshold", "normalize_codes"):
                object.__setattr__(self, name, None)

    @cached_property
    def key(self) -> str:
        """Short digest of all fields; the key of the result row."""
        return digest(asdict(self))

    @property
    def source(self) -> tuple[Any, ...]:
        """Everything that determines the descriptors; equal sources share one pass over images."""
        subset = (self.dataset, self.images_per_class, self.max_classes)
        return (*subset, self.variant, self.max_side, self.step, self.patch_size)

    @property
    def split_seed(self) -> int:
        """Seed of this split."""
        return split_seeds(self.seed, self.split + 1)[self.split]

    @property
    def codebook_key(self) -> CodebookKey:
        """Everything that determines the codebook, besides the source."""
        if self.codebook == ALL_IMAGES:
            seed, split = split_seeds(self.seed, 1)[0], None
        else:
            seed = self.split_seed
            split = (self.train_per_class, self.choice, self.split, self.seed)
        if self.codebook_seed is not None:
            seed = self.codebook_seed
        return CodebookKey(seed, self.codebook_size, self.n_samples, split)

    @property
    def vector_key(self) -> Any:
        """Everything that determines the vectors, besides the source."""
        return (self.codebook_key, same_key(self.classifier(None).new_channels()))

    def _channel(self) -> Channel:
        (channel,) = find_method(self.method).channels()
        return channel

    def classifier(self, n_jobs: int | None) -> ImageClassifier:
        """Return an unfitted classifier with this setting's parameters."""
        channel = self._channel()
        channel.descriptor = SIFT(self.step, self.patch_size)
        channel.encoder.set_params(codebook_size=self.codebook_size)
        channel.pooling.set_params(norm=self.norm or channel.pooling.norm)
        if isinstance(channel.encoder, LRREncoder):
            channel.encoder.set_params(
                regularization=self.regularization,
                threshold=self.threshold,
                normalize_codes=self.normalize_codes,
            )
        return ImageClassifier(
            method=self.method,
            channels=[channel],
            max_side=self.max_side,
            n_samples=self.n_samples,
            C=self.C,
            n_jobs=n_jobs,
            random_state=self.split_seed,
        )

    def features(self, n_jobs: int | None, codebook: NDArray[Any]) -> SpatialPyramidFeatures:
        """Return fitted features with this setting's parameters and a given codebook."""
        features = vary(self.classifier(n_jobs).new_features(), self.variant)
        (channel,) = features.new_channels()
        # Given a codebook, the encoder learns nothing from the data it is fitted to.
        channel.encoder.set_params(codebook=codebook)
        features.channels_ = [channel.fit_on(codebook)]
        return features

    def codebook_features(self, n_jobs: int | None) -> SpatialPyramidFeatures:
        """Return unfitted features that learn the codebook, the same one for every method.

        VQ keeps the k-means centers as they are; ScSPM's encoder would scale
        them.
        """
        features = self.classifier(n_jobs).new_features()
        features.set_params(
            channels__0__encoder=VQEncoder(self.codebook_size), random_state=self.codebook_key.seed
        )
        return vary(features, self.variant)


def digest(content: dict[str, Any]) -> str:
    """Return a short digest of parameters, independent of their order."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
