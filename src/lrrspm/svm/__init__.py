"""Support vector machines: vectors -> scores and labels."""

from .alignment import aligned_rows, class_alignment
from .calibration import familiarity, fit_temperature, fit_thresholds, probabilities
from .crossing import Crossed, cross_scores, fit_crossed
from .folds import stratified_folds
from .kernel import KernelSVM
from .labels import (
    ClassWeight,
    encode_labels,
    one_vs_rest,
    predict_labels,
    score_columns,
    weigh_samples,
)
from .leaving import leave_out
from .linear import LinearSVM
from .stored import gram_fits, linear_gram

SVM = LinearSVM | KernelSVM

__all__ = [
    "SVM",
    "ClassWeight",
    "Crossed",
    "KernelSVM",
    "LinearSVM",
    "aligned_rows",
    "class_alignment",
    "cross_scores",
    "encode_labels",
    "familiarity",
    "fit_crossed",
    "fit_temperature",
    "fit_thresholds",
    "gram_fits",
    "leave_out",
    "linear_gram",
    "one_vs_rest",
    "predict_labels",
    "probabilities",
    "score_columns",
    "stratified_folds",
    "weigh_samples",
]
