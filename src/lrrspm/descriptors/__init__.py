"""Local descriptors: pixels of one image -> values of many patches, and where they lie."""

from .base import Descriptor, LocalDescriptors
from .lbp import LBP
from .local_color import LocalColor
from .projection import Projection, places
from .root_sift import OpponentSIFT, RootSIFT
from .sift import SIFT, dense_sift

__all__ = [
    "LBP",
    "SIFT",
    "Descriptor",
    "LocalColor",
    "LocalDescriptors",
    "OpponentSIFT",
    "Projection",
    "RootSIFT",
    "dense_sift",
    "places",
]
