"""Encoders: descriptors -> codes over a codebook."""

from .base import BLOCK, CodebookEncoder, Encoder
from .dictionary import learn_dictionary
from .kernel_lrr import KernelLRREncoder
from .kmeans import Progress, learn_codebook
from .llc import LLCEncoder
from .lrr import LRREncoder
from .mixture import MixtureEncoder
from .sparse import SparseEncoder
from .supervised_lrr import SupervisedLRREncoder
from .vq import VQEncoder
from .weights import LRRWeightEncoder

__all__ = [
    "BLOCK",
    "CodebookEncoder",
    "Encoder",
    "KernelLRREncoder",
    "LLCEncoder",
    "LRREncoder",
    "LRRWeightEncoder",
    "MixtureEncoder",
    "Progress",
    "SparseEncoder",
    "SupervisedLRREncoder",
    "VQEncoder",
    "learn_codebook",
    "learn_dictionary",
]
