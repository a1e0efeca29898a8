"""Model files: a classifier <-> one safe file."""

from .card import describe_model, describe_parameters
from .checks import (
    check_class_weight,
    check_classes,
    check_familiar,
    check_labels,
    check_summary,
    check_temperature,
    pack_weights,
)
from .container import ModelFile, ModelFileError, open_model, read_description, write_model
from .parts import MissingPackageError, check_restorable, fill, fitted_places, pack, restore
from .trained_on import DIGESTS, check_digests, label_digests, pack_digests

__all__ = [
    "DIGESTS",
    "MissingPackageError",
    "ModelFile",
    "ModelFileError",
    "check_class_weight",
    "check_classes",
    "check_digests",
    "check_familiar",
    "check_labels",
    "check_restorable",
    "check_summary",
    "check_temperature",
    "describe_model",
    "describe_parameters",
    "fill",
    "fitted_places",
    "label_digests",
    "open_model",
    "pack",
    "pack_digests",
    "pack_weights",
    "read_description",
    "restore",
    "write_model",
]
