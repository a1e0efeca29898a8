"""Methods: named recipes that build channels and say which classifier follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import config
from ._support import registry
from .channels import Channel
from .descriptors import LBP, Descriptor, LocalColor, OpponentSIFT, Projection, RootSIFT
from .encoders import (
    Encoder,
    KernelLRREncoder,
    LLCEncoder,
    LRREncoder,
    LRRWeightEncoder,
    MixtureEncoder,
    SparseEncoder,
    SupervisedLRREncoder,
    VQEncoder,
)
from .pooling import (
    HistogramPooling,
    MaxPooling,
    MomentPooling,
    Pooling,
    SignedMaxPooling,
    VLADPooling,
)


@dataclass(frozen=True)
class Method:
    """A recipe.

    Attributes
    ----------
    name, summary : str
    build : callable
        Returns new channels, every part named.
    kernel : str or None
        Kernel of the SVM; None is the linear one.
    fixed : tuple of str
        Parameters of channels that belong to the idea and are not to be changed.
    use : str
        When to pick it, for presets.
    loss : str
        Loss of the linear SVM, see :class:`lrrspm.LinearSVM`.
    min_side : int or None
        Longer side to which smaller images are enlarged, see :class:`SpatialPyramidFeatures`.
    """

    name: str
    summary: str
    build: Callable[[], list[Channel]]
    kernel: str | None = None
    fixed: tuple[str, ...] = ()
    use: str = ""
    loss: str = "squared_hinge"
    min_side: int | None = None

    def check(self, channels: list[Channel]) -> None:
        """Raise ValueError where channels are not of the recipe's encoders."""
        own = self.build()
        found = [type(channel.encoder) for channel in channels]
        if len(own) != len(found):  # a fitted model has no channels that are left out
            own = [channel for channel in own if channel.when is None]
        expected = [type(channel.encoder) for channel in own]
        if len(expected) != len(found) or not all(map(issubclass, found, expected)):
            raise ValueError(
                f"the channels are not those of {self.name}: they encode with "
                f"{', '.join(cls.__name__ for cls in found)}; leave out the method or the channels"
            )

    def channels(self, encoder: Any = None) -> list[Channel]:
        """Build the channels, with another encoder of the recipe's own class where one is given."""
        channels = [channel.complete() for channel in self.build()]
        if encoder is None:
            return channels
        if len(channels) > 1:
            raise ValueError(
                f"{self.name} has {len(channels)} channels; give channels, not encoder"
            )
        own = type(channels[0].encoder)
        if not isinstance(encoder, own):
            raise ValueError(
                f"{self.name} encodes with {own.__name__}, got {type(encoder).__name__}; "
                "leave out the method, or give channels instead of an encoder"
            )
        channels[0].encoder = encoder
        return channels


METHODS = {
    method.name: method
    for method in (
        Method(
            "LrrSPM",
            "low-rank codes, max pooling, linear SVM",
            lambda: [Channel(LRREncoder(), pooling=MaxPooling())],
        ),
        Method(
            "LinearBOF",
            "histogram of nearest atoms over the whole image, linear SVM",
            lambda: [Channel(VQEncoder(), pooling=HistogramPooling(), levels=(1,))],
            fixed=("levels",),
        ),
        Method(
            "KernelBOF",
            "histogram of nearest atoms over the whole image, intersection kernel",
            lambda: [Channel(VQEncoder(), pooling=HistogramPooling("l1"), levels=(1,))],
            kernel="intersection",
            fixed=("levels",),
        ),
        Method(
            "LinearSPM",
            "weighted pyramid of histograms of nearest atoms, linear SVM",
            lambda: [Channel(VQEncoder(), pooling=HistogramPooling())],
        ),
        Method(
            "KernelSPM",
            "weighted pyramid of histograms of nearest atoms, intersection kernel",
            lambda: [Channel(VQEncoder(), pooling=HistogramPooling("l1"))],
            kernel="intersection",
        ),
        Method(
            "ScSPM",
            "sparse codes, max pooling, linear SVM",
            lambda: [Channel(SparseEncoder(), pooling=MaxPooling())],
        ),
        Method(
            "LLC",
            "codes over the nearest atoms, signed max pooling, linear SVM",
            lambda: [Channel(LLCEncoder(), pooling=SignedMaxPooling())],
        ),
    )
}
"""The methods of the paper's tables, which keep their bits."""

BEYOND = {
    method.name: method
    for method in (
        Method(
            "LrrFV",
            "moments of RootSIFT and binary patterns, weighted by low-rank codes, linear SVM",
            lambda: _moments(LRRWeightEncoder),
            min_side=config.MIN_SIDE,
        ),
        Method(
            "FV",
            "the same moments, weighted by posteriors of a Gaussian mixture (Fisher vectors)",
            lambda: _moments(MixtureEncoder),
            min_side=config.MIN_SIDE,
        ),
        Method(
            "VLAD",
            "first moments of the same descriptors around their nearest atoms, linear SVM",
            lambda: _moments(lambda: VQEncoder(config.WEIGHT_ATOMS), VLADPooling),
            min_side=config.MIN_SIDE,
        ),
        Method(
            "KernelLrrSPM",
            "low-rank codes, max pooling, intersection kernel",
            lambda: [Channel(LRREncoder(), pooling=MaxPooling("l1"))],
            kernel="intersection",
        ),
        Method(
            "NonlinearLrrSPM",
            "low-rank codes in the feature space of the Hellinger kernel, max pooling, linear SVM",
            lambda: [Channel(KernelLRREncoder(), pooling=MaxPooling())],
        ),
        Method(
            "SupervisedLrrSPM",
            "low-rank codes over a codebook learned per class, max pooling, linear SVM",
            lambda: [Channel(SupervisedLRREncoder(), pooling=MaxPooling())],
        ),
    )
}
"""Methods beyond the paper, still subject to change."""


def _moments(
    encoder: Callable[[], Encoder],
    pooling: Callable[[], Pooling] = MomentPooling,
    descriptors: Sequence[Descriptor] | None = None,
    weight: float | None = 1.0,
) -> list[Channel]:
    """Build channels of moments; those that read color are left out where there is none."""
    return [
        Channel(
            encoder(), descriptor, pooling(), config.REGIONS, weight, projection=Projection(),
            when="color" if descriptor.color else None,
        )
        for descriptor in descriptors or (RootSIFT(), LBP())
    ]  # fmt: skip


PRESETS = {
    method.name: method
    for method in (
        Method(
            "fast",
            "LrrSPM, as in the paper: the smallest models and the most images per second",
            METHODS["LrrSPM"].build,
            use="speed counts most",
        ),
        Method(
            "balanced",
            "LrrFV with few atoms, and over colors where images have them: far more accurate, and "
            "still trained in seconds",
            lambda: _moments(
                lambda: LRRWeightEncoder(config.BALANCED_ATOMS),
                descriptors=(RootSIFT(), LBP(), LocalColor()),
                weight=None,
            ),
            use="in doubt",
            min_side=config.MIN_SIDE,
        ),
        Method(
            "best",
            "LrrFV over small and large patches, and over colors where images have them",
            lambda: _moments(
                LRRWeightEncoder,
                descriptors=(
                    RootSIFT(),
                    RootSIFT(config.SMALL_PATCH_SIZES, config.SMALL_STEPS),
                    LBP(),
                    OpponentSIFT(),
                    LocalColor(),
                ),
                weight=None,
            ),
            use="accuracy counts most",
            loss="squared",
            min_side=config.MIN_SIDE,
        ),
    )
}
"""What to pick by need: speed, accuracy, or both."""


def method_names() -> list[str]:
    """Return the names of all methods, those of other packages last."""
    own = [*PRESETS, *METHODS, *BEYOND]
    return [*own, *(name for name in registry.others("methods") if name not in own)]


def find_method(name: str) -> Method:
    """Return a method by its name, also one that another package registers."""
    own = {**PRESETS, **METHODS, **BEYOND}
    if name in own:
        return own[name]
    try:
        found = registry.find("methods", name)
    except registry.MissingPartError:
        raise ValueError(f"no method {name!r}; choose from: {', '.join(method_names())}") from None
    if not isinstance(found, Method):
        raise TypeError(f"the method {name!r} is a {type(found).__name__}, expected a Method")
    return found


def measured() -> dict[str, dict[str, Any]]:
    """Return the measured accuracies (percent, or None) and images per second of the presets."""
    found: dict[str, dict[str, Any]] = json.loads(
        Path(__file__).with_name("measured.json").read_text(encoding="utf-8")
    )
    return found


def method_of(encoder: Any) -> str | None:
    """Return the linear pyramid method that encodes with an encoder's class, or None."""
    for name, method in METHODS.items():
        plain = method.kernel is None and not method.fixed
        if plain and type(method.build()[0].encoder) is type(encoder):
            return name
    return None
