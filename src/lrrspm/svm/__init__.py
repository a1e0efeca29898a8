"""Support vector machines: vectors -> scores and labels."""

from .alignment import class_alignment
from .kernel import KernelSVM
from .labels import encode_labels, predict_labels, score_columns
from .linear import LinearSVM

SVM = LinearSVM | KernelSVM

__all__ = [
    "SVM",
    "KernelSVM",
    "LinearSVM",
    "class_alignment",
    "encode_labels",
    "predict_labels",
    "score_columns",
]
