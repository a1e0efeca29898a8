"""Evaluation: how good a classifier is, measured on images it was not trained on."""

from .estimates import Training, train_with_estimate
from .mistakes import Mistake, find_mistakes, most_confident
from .predictions import COLUMNS, Prediction, list_predictions, prediction_rows, rounded
from .protocol import SHARED_STAGES, evaluate, evaluate_all, score_model
from .results import (
    ClassMetrics,
    ConfusedGroup,
    Evaluation,
    Skipped,
    class_accuracies,
    count_confusions,
)
from .splits import split_by_class, split_seeds

__all__ = [
    "COLUMNS",
    "SHARED_STAGES",
    "ClassMetrics",
    "ConfusedGroup",
    "Evaluation",
    "Mistake",
    "Prediction",
    "Skipped",
    "Training",
    "class_accuracies",
    "count_confusions",
    "evaluate",
    "evaluate_all",
    "find_mistakes",
    "list_predictions",
    "most_confident",
    "prediction_rows",
    "rounded",
    "score_model",
    "split_by_class",
    "split_seeds",
    "train_with_estimate",
]
