"""Pooling: codes of all patches -> one vector per image."""

from .base import Pooling
from .maxima import MaxPooling, SignedMaxPooling
from .moments import MomentPooling
from .pyramid import Level, SpatialPyramid
from .sums import AveragePooling, HistogramPooling
from .vlad import VLADPooling

__all__ = [
    "AveragePooling",
    "HistogramPooling",
    "Level",
    "MaxPooling",
    "MomentPooling",
    "Pooling",
    "SignedMaxPooling",
    "SpatialPyramid",
    "VLADPooling",
]
