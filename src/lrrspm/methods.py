"""The methods of the paper's tables, by name. A new one is an entry here."""

from __future__ import annotations

from dataclasses import dataclass

from .encoders.base import CodebookEncoder, LLCEncoder, LRREncoder, VQEncoder
from .encoders.sparse import SparseEncoder


@dataclass(frozen=True)
class Method:
    """How an image becomes a vector, and what classifies it.

    Attributes
    ----------
    name, summary : str
    encoder : class of the encoder
    pooling, norm : see :class:`lrrspm.SpatialPyramid`
    pyramid : bool
        False uses the 1x1 grid alone, whatever levels are asked for.
    kernel : str or None
        Kernel of the SVM; None is the linear one.
    """

    name: str
    summary: str
    encoder: type[CodebookEncoder]
    pooling: str
    norm: str
    pyramid: bool = True
    kernel: str | None = None


METHODS = {
    method.name: method
    for method in (
        Method("LrrSPM", "low-rank codes, max pooling, linear SVM", LRREncoder, "max", "l2"),
        Method(
            "LinearBOF",
            "histogram of nearest atoms over the whole image, linear SVM",
            VQEncoder,
            "histogram",
            "l2",
            pyramid=False,
        ),
        Method(
            "KernelBOF",
            "histogram of nearest atoms over the whole image, intersection kernel",
            VQEncoder,
            "histogram",
            "l1",
            pyramid=False,
            kernel="intersection",
        ),
        Method(
            "LinearSPM",
            "weighted pyramid of histograms of nearest atoms, linear SVM",
            VQEncoder,
            "histogram",
            "l2",
        ),
        Method(
            "KernelSPM",
            "weighted pyramid of histograms of nearest atoms, intersection kernel",
            VQEncoder,
            "histogram",
            "l1",
            kernel="intersection",
        ),
        Method("ScSPM", "sparse codes, max pooling, linear SVM", SparseEncoder, "max", "l2"),
        Method(
            "LLC",
            "codes over the nearest atoms, signed max pooling, linear SVM",
            LLCEncoder,
            "signed_max",
            "l2",
        ),
    )
}


def find_method(name: str) -> Method:
    """A method by its name."""
    if name not in METHODS:
        raise ValueError(f"no method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]
