"""Support vector machines: vectors -> scores and labels."""

from .calibration import familiarity, fit_temperature, probabilities
from .crossing import cross_scores
from .folds import stratified_folds
from .kernel import KernelSVM
from .labels import ClassWeight, encode_labels, predict_labels, score_columns
from .linear import LinearSVM, linear_gram

SVM = LinearSVM | KernelSVM

__all__ = [
    "SVM",
    "ClassWeight",
    "KernelSVM",
    "LinearSVM",
    "cross_scores",
    "encode_labels",
    "familiarity",
    "fit_temperature",
    "linear_gram",
    "predict_labels",
    "probabilities",
    "score_columns",
    "stratified_folds",
]
