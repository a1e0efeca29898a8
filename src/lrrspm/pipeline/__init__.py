"""Pipeline: many images, a chunk at a time, on whatever engine is handed in."""

from .encoding import Encoded, encode_images
from .engines import Engine, open_engine
from .fitted import known_sizes
from .sampling import check_labels_of, fit_features
from .spreading import fill_shards, open_shards
from .streaming import block_size, map_vectors, stream_vectors, whole

__all__ = [
    "Encoded",
    "Engine",
    "block_size",
    "check_labels_of",
    "encode_images",
    "fill_shards",
    "fit_features",
    "known_sizes",
    "map_vectors",
    "open_engine",
    "open_shards",
    "stream_vectors",
    "whole",
]
