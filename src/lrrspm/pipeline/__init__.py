"""Pipeline: many images, a chunk at a time, on whatever engine is handed in."""

from .encoding import Encoded, encode_images
from .engines import Engine, open_engine
from .fitted import known_sizes
from .sampling import check_labels_of, fit_features
from .streaming import block_size, map_vectors, stream_vectors, whole

__all__ = [
    "Encoded",
    "Engine",
    "block_size",
    "check_labels_of",
    "encode_images",
    "fit_features",
    "known_sizes",
    "map_vectors",
    "open_engine",
    "stream_vectors",
    "whole",
]
