"""Model files: a classifier <-> one safe file."""

from .card import describe_model, describe_parameters
from .checks import check_classes, check_labels, check_summary
from .container import ModelFile, ModelFileError, open_model, read_description, write_model
from .parts import MissingPackageError, check_restorable, fill, fitted_places, pack, restore

__all__ = [
    "MissingPackageError",
    "ModelFile",
    "ModelFileError",
    "check_classes",
    "check_labels",
    "check_restorable",
    "check_summary",
    "describe_model",
    "describe_parameters",
    "fill",
    "fitted_places",
    "open_model",
    "pack",
    "read_description",
    "restore",
    "write_model",
]
