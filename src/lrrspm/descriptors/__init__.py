"""Local descriptors: pixels of one image -> values of many patches, and where they lie."""

from .base import Descriptor, LocalDescriptors
from .sift import SIFT, dense_sift

__all__ = ["SIFT", "Descriptor", "LocalDescriptors", "dense_sift"]
