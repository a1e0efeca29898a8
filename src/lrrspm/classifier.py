"""ImageClassifier: features and a support vector machine together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from . import config
from ._support.devices import Held
from ._support.estimators import BaseEstimator, ClassifierMixin, Tags
from ._support.shards import Shards
from ._support.stages import Stages
from .cache import FeatureStore
from .channels import Channel, ChannelParameters
from .evidence import Examination, Explanation
from .features import Image, SpatialPyramidFeatures
from .growing import GrowingMixin, Kept, train
from .images import list_images
from .methods import find_method, method_of
from .modelfile import (
    DIGESTS,
    check_summary,
    pack,
    pack_weights,
    write_model,
)
from .pipeline import Engine, map_vectors, open_engine
from .svm import (
    SVM,
    ClassWeight,
    Crossed,
    KernelSVM,
    LinearSVM,
    familiarity,
    fit_crossed,
    fit_temperature,
    fit_thresholds,
    predict_labels,
    probabilities,
    score_columns,
    weigh_samples,
)


class ImageClassifier(GrowingMixin, ClassifierMixin, ChannelParameters, BaseEstimator):
    """Classify images: descriptors, encoder, spatial pyramid, support vector machine.

    Parameters
    ----------
    encoder : encoder or None
        The encoder of a method with one channel; None is the method's own.
    method : str or None
        A name that ``lrrspm methods`` lists: which channels, and which kernel.
        None is balanced; or, with an encoder, that encoder over the pyramid, its
        codes pooled as its own method does it, and the linear SVM.
    channels : list of Channel or None
        Channels instead of an encoder or the method's.
    max_side, n_samples
        See :class:`lrrspm.SpatialPyramidFeatures`.
    min_side : int, None or "auto"
        Likewise; "auto" is the method's own: 192 pixels, or ``max_side`` if that is less,
        for LrrFV, its peers and presets, else None.
    C : float
        Penalty of the support vector machine.
    class_weight : dict, "balanced" or None
        How much images of a class count in training, see :class:`lrrspm.LinearSVM`;
        "balanced" helps classes with few images. Then cross-validation also finds
        what to add to the scores of each class (not for kernels), and probabilities
        are those of classes that weigh so.
    n_jobs : int or None
        Threads; None is 1, -1 all cores. The result has the same bits for
        any number.
    random_state : int, RandomState instance or None
        Seed of everything random.
    cache : path or None
        A folder that keeps codebooks and vectors for the next run, see
        :class:`lrrspm.cache.FeatureStore`. It changes only the speed, and is
        not part of a model file.
    device : str
        Where vectors are computed: "cpu"; "cuda" for a GPU of NVIDIA (``lrrspm[gpu]``),
        for fast, balanced, best, LrrSPM and LrrFV; or "torch", the operations of a GPU on
        the CPU. Vectors agree within rounding. Not part of a model file.
    engine : str, Executor or distributed.Client
        What computes chunks of images, for the same model: "threads", "processes",
        ``dask://host:port`` (``lrrspm[dask]``), a client of Dask, or an executor.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    features_ : SpatialPyramidFeatures
    svm_ : LinearSVM or KernelSVM
    temperature_ : float or None
        Of the probabilities, by cross-validation; None where classes have too few images.
    familiar_ : float or None
        Least :func:`lrrspm.svm.familiarity` of 99 % of the training images, likewise.
    summary_ : dict
        Numbers of training images, in all and per class.
    digests_ : ndarray of shape (n, 16), uint8, or None
        What it was trained on: half of each image's SHA-256, class by class.

    Notes
    -----
    Parameters of parts are nested, in a grid search too: ``channels__0__levels``,
    ``channels__0__encoder__regularization``, ``channels__0__descriptor__step``.

    Examples
    --------
    >>> from lrrspm import ImageClassifier, find_images
    >>> paths, labels = find_images("images")  # doctest: +SKIP
    >>> model = ImageClassifier(random_state=0, n_jobs=-1).fit(paths, labels)  # doctest: +SKIP
    >>> model.predict("new.jpg")  # doctest: +SKIP
    """

    def __init__(
        self,
        encoder: Any = None,
        method: str | None = None,
        channels: Sequence[Channel] | None = None,
        max_side: int | None = config.MAX_SIDE,
        n_samples: int = config.N_SAMPLES,
        C: float = config.C,
        n_jobs: int | None = None,
        random_state: Any = None,
        cache: str | os.PathLike[str] | None = None,
        class_weight: ClassWeight = None,
        device: str = config.DEVICE,
        engine: Any = config.ENGINE,
        min_side: int | str | None = "auto",
    ) -> None:
        self.encoder: Any = encoder
        self.method = method
        self.channels = channels
        self.max_side = max_side
        self.n_samples = n_samples
        self.C = C
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.cache = cache
        self.class_weight = class_weight
        self.device = device
        self.engine = engine
        self.min_side = min_side

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def fit(self, X: Iterable[Image], y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on images and their labels.

        Parameters
        ----------
        X : sequence of N images
        y : array of shape (N,)
        sample_weight : array of shape (N,) or None
            How much each image counts in the support vector machine.

        Returns
        -------
        self
        """
        train(self, X, y, sample_weight)
        return self

    def decision_function(self, X: Iterable[Image] | Image) -> NDArray[Any]:
        """Return scores, (N, n_classes), or (N,) for two classes (positive: the second).

        One image, not in a list, is N = 1.
        """
        check_is_fitted(self)
        images = list_images(X)
        with open_engine(self.n_jobs, self.engine, self.device) as engine:
            score = self.svm_.scores
            found = map_vectors(score, self.features_, images, engine, Stages(), store=self.store())
        return np.concatenate(found.results)

    def predict(self, X: Iterable[Image] | Image) -> NDArray[Any]:
        """Return labels, (N,); one image, not in a list, is N = 1."""
        scores = self.decision_function(X)
        return predict_labels(self.classes_, scores)

    def predict_proba(self, X: Iterable[Image] | Image) -> NDArray[np.float64]:
        """Return the probability of each class, (N, n_classes); rows sum to 1.

        They are calibrated on images that the scores were not learned from: of the
        answers given with 0.9, about nine in ten are right, as long as new images
        are like the training images. An image of another kind has no low
        probability by itself.
        """
        return self.probabilities(score_columns(self.decision_function(X)))

    def probabilities(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Return probabilities for scores, both (N, n_classes)."""
        return probabilities(scores, self.temperature_ or config.TEMPERATURE)

    def is_known(self, scores: NDArray[Any], confidence: float) -> NDArray[np.bool_]:
        """Return which images to answer, (N,), from scores (N, n_classes).

        Those with a class of at least that probability, but for images that are less
        familiar than nearly all training images were.
        """
        sure = self.probabilities(scores).max(axis=1) >= confidence
        if self.temperature_ is None or self.familiar_ is None:
            return sure
        return sure & (familiarity(scores, self.temperature_) >= self.familiar_)

    def explain(self, image: Image, label: Any = None) -> Explanation:
        """Compute what each patch of an image adds to a class's score, and where.

        Parameters
        ----------
        image : path, array of shape (h, w) or (h, w, 3), image of Pillow, or binary file
        label
            One of ``classes_``; None is the predicted class.

        Returns
        -------
        Explanation
            See :class:`lrrspm.Explanation`. Its map sums to ``score - intercept``.

        Notes
        -----
        Contributions add up to the score exactly. Of a maximum the patch that it came from has
        all the evidence, the first of several equal ones. Histograms give each
        patch the part of its count. A moment is the root of a sum, of which each
        patch has its part, or that of the absolute values where they nearly
        cancel; see :class:`lrrspm.pooling.MomentPooling`. A score of the intersection kernel
        (KernelBOF, KernelSPM, KernelLrrSPM) is a sum over entries too, each a
        function of that entry alone; the patches counted in an entry of a
        histogram share what it adds evenly.
        """
        return self.examine(image).explain(label)

    def examine(self, image: Image) -> Examination:
        """Read one image for its scores and for explanations of several classes."""
        check_is_fitted(self)
        return Examination(self.features_, self.svm_, image, self.temperature_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which :func:`lrrspm.load_model` reads.

        The path may be an address, such as ``s3://bucket/my.lrrspm``.

        Raises ValueError for parts that are not registered, and so could not be
        restored.
        """
        check_is_fitted(self)
        packed = pack(self.features_, self.svm_)
        description = {
            **packed.description,
            "method": self.fitted_method_,
            "classes": self.classes_.tolist(),
            "summary": check_summary(self.summary_),
            "temperature": self.temperature_,
            "familiar": self.familiar_,
            "class_weight": pack_weights(self.class_weight),
            "requires": packed.requires,
        }
        known = {} if self.digests_ is None else {DIGESTS: self.digests_}
        write_model(path, description, packed.arrays | known)

    @property
    def method_name(self) -> str:
        """Name of the method, or of the encoder's own method, or "custom"."""
        if self.channels is not None:
            return "custom" if self.method is None else self.method
        if self.method is None:
            return config.METHOD if self.encoder is None else method_of(self.encoder) or "custom"
        return self.method

    @property
    def method_summary(self) -> str:
        """One-line summary of the method."""
        name = self.method_name
        return "custom channels" if name == "custom" else find_method(name).summary

    def new_channels(self) -> list[Channel]:
        """Return unfitted channels of our own, every part named."""
        if self.channels is not None:
            if self.encoder is not None:
                raise ValueError("give channels or an encoder, not both")
            channels = SpatialPyramidFeatures(self.channels).new_channels()
            if self.method is not None:
                find_method(self.method).check(channels)
            return channels
        encoder = None if self.encoder is None else clone(self.encoder)
        if self.method is None and encoder is not None:
            return [Channel(encoder).complete()]
        return find_method(self.method or config.METHOD).channels(encoder)

    def new_features(self) -> SpatialPyramidFeatures:
        """Return unfitted features with this classifier's parameters."""
        return SpatialPyramidFeatures(
            self.new_channels(),
            max_side=self.max_side,
            n_samples=self.n_samples,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            cache=self.cache,
            min_side=self.own_min_side(),
        )

    def own_min_side(self) -> int | None:
        """Return the longer side to which smaller images are enlarged; "auto" is the method's."""
        if self.min_side is None or isinstance(self.min_side, Integral):
            return None if self.min_side is None else int(self.min_side)
        if self.min_side != "auto":
            raise ValueError(f"min_side must be a number, None or 'auto', got {self.min_side!r}")
        name = self.method_name
        own = None if name == "custom" else find_method(name).min_side
        return own if own is None or self.max_side is None else min(own, self.max_side)

    def new_svm(self) -> SVM:
        """Return an unfitted support vector machine with this classifier's parameters."""
        method = None if self.method is None else find_method(self.method)
        given: dict[str, Any] = {
            "C": self.C,
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
            "class_weight": self.class_weight,
        }
        if method is None:
            return LinearSVM(**given)
        if method.kernel is None:
            return LinearSVM(**given, loss=method.loss)
        return KernelSVM(method.kernel, **given)

    def fit_svm(
        self,
        vectors: NDArray[Any] | Shards | Held,
        labels: NDArray[Any],
        engine: Engine,
        folds: NDArray[np.int64] | None = None,
        sample_weight: NDArray[Any] | None = None,
        tell: Callable[[int, SVM], object] | None = None,
        groups: NDArray[np.int64] | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> Crossed | None:
        """Train the support vector machine alone, on vectors of ``features_``.

        With ``folds`` (N,), the number of each image's fold or -1, scores by machines
        trained without the image are returned; ``tell`` is called with each fold and
        its machine. It is calibrated on those of leaving out the image and its group
        (N,) alone: machines of folds know less than it does, and are less sure.
        Not if an encoder learned from the labels: no machine is without the image then.
        Vectors of a linear machine may be in shards, whose ``progress`` is told.
        """
        if any(channel.encoder.uses_labels for channel in self.new_channels()):
            folds = None
        self.svm_: SVM = self.new_svm()
        self.temperature_: float | None = None
        self.familiar_: float | None = None
        crossed = None
        given: dict[str, Any] = {"progress": progress} if isinstance(vectors, Shards) else {}
        if folds is None or folds.max() < 0:
            samples: Any = vectors  # in shards for a linear machine alone
            self.svm_.fit_folds(samples, labels, None, engine.threads, sample_weight, **given)
        else:
            indices, tested = np.unique(labels, return_inverse=True)[1], folds >= 0
            crossed = fit_crossed(
                self.svm_, vectors, labels, folds, engine.threads, sample_weight, tell, groups,
                progress,
            )  # fmt: skip
            self._calibrate(crossed, labels, indices, tested, sample_weight)
            assert self.temperature_ is not None
            found = familiarity(crossed.left_out[tested], self.temperature_)
            self.familiar_ = float(np.quantile(found, config.UNFAMILIAR))
        self.fitted_method_: str | None = None if self.method_name == "custom" else self.method_name
        self.classes_: NDArray[Any] = self.svm_.classes_
        counts = Counter(labels.tolist())
        per_class = {str(name): counts[name] for name in self.classes_.tolist()}
        self.summary_: dict[str, Any] = {"images": len(labels), "images_per_class": per_class}
        self.digests_: NDArray[np.uint8] | None = None
        self.kept_: Kept | None = None
        return crossed

    def _calibrate(
        self,
        crossed: Crossed,
        labels: NDArray[Any],
        indices: NDArray[np.int64],
        tested: NDArray[np.bool_],
        sample_weight: NDArray[Any] | None,
    ) -> None:
        """Learn the temperature from scores; with class weights, thresholds too.

        These are added to the scores, and to the machine's intercepts.
        """
        scores = crossed.left_out
        weights = weigh_samples(self.class_weight, labels, sample_weight, np.float64)
        if self.class_weight is None or weights is None or isinstance(self.svm_, KernelSVM):
            self.temperature_ = fit_temperature(scores[tested], indices[tested])
            return
        added, self.temperature_ = fit_thresholds(scores[tested], indices[tested], weights[tested])
        for found in crossed:
            found += added
        own = added[1:] if len(added) == 2 else added  # two classes share one machine
        self.svm_.intercept_ = (self.svm_.intercept_ + own).astype(self.svm_.intercept_.dtype)

    def store(self) -> FeatureStore:
        """Open the store in ``cache``."""
        return FeatureStore(self.cache)

    def _name_channels(self) -> None:
        super()._name_channels()
        self.encoder = None  # it is part of the channels now
