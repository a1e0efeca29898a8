"""Support vector machines: vectors -> scores and labels."""

from .calibration import familiarity, fit_temperature, fit_thresholds, probabilities
from .folds import stratified_folds
from .kernel import KernelSVM
from .labels import ClassWeight, encode_labels, predict_labels, score_columns, weigh_samples
from .linear import LinearSVM

SVM = LinearSVM | KernelSVM

__all__ = [
    "SVM",
    "ClassWeight",
    "KernelSVM",
    "LinearSVM",
    "encode_labels",
    "familiarity",
    "fit_temperature",
    "fit_thresholds",
    "predict_labels",
    "probabilities",
    "score_columns",
    "stratified_folds",
    "weigh_samples",
]
