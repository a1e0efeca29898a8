"""Pipeline: many images, a chunk at a time, on whatever engine is handed in."""

from .encoding import Encoded, encode_images
from .engines import Engine, open_engine
from .sampling import check_labels_of, fit_features

__all__ = [
    "Encoded",
    "Engine",
    "check_labels_of",
    "encode_images",
    "fit_features",
    "open_engine",
]
