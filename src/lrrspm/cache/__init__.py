"""Cache: computed results on disk, and what they depend on."""

from .keys import hash_of, makers, part_key, plain, same_key
from .shelf import Form, Shelf
from .store import FeatureStore, StoreError, clear, contents

__all__ = [
    "FeatureStore",
    "Form",
    "Shelf",
    "StoreError",
    "clear",
    "contents",
    "hash_of",
    "makers",
    "part_key",
    "plain",
    "same_key",
]
