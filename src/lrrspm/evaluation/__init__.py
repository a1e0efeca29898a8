"""Evaluation: how good a classifier is, measured on images it was not trained on."""

from .estimates import Training, train_with_estimate
from .groups import Groups, count_leaks, find_groups, name_groups
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
    "Groups",
    "Mistake",
    "Prediction",
    "Skipped",
    "Training",
    "class_accuracies",
    "count_confusions",
    "count_leaks",
    "evaluate",
    "evaluate_all",
    "find_groups",
    "find_mistakes",
    "list_predictions",
    "most_confident",
    "name_groups",
    "prediction_rows",
    "rounded",
    "score_model",
    "split_by_class",
    "split_seeds",
    "train_with_estimate",
]
