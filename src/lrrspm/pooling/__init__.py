"""Pooling: codes of all patches -> one vector per image."""

from .base import Pooling
from .maxima import MaxPooling, SignedMaxPooling
from .pyramid import SpatialPyramid
from .sums import AveragePooling, HistogramPooling

__all__ = [
    "AveragePooling",
    "HistogramPooling",
    "MaxPooling",
    "Pooling",
    "SignedMaxPooling",
    "SpatialPyramid",
]
