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
from .review import Review, Suspect, review
from .splits import split_by_class, split_seeds
from .tuning import Candidate, Tuning, tune

__all__ = [
    "COLUMNS",
    "SHARED_STAGES",
    "Candidate",
    "ClassMetrics",
    "ConfusedGroup",
    "Evaluation",
    "Groups",
    "Mistake",
    "Prediction",
    "Review",
    "Skipped",
    "Suspect",
    "Training",
    "Tuning",
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
    "review",
    "rounded",
    "score_model",
    "split_by_class",
    "split_seeds",
    "train_with_estimate",
    "tune",
]
