"""Evaluation: how good a classifier is, measured on images it was not trained on."""

from .estimates import Training, train_with_estimate
from .groups import Groups, count_leaks, find_groups, name_groups
from .mistakes import Mistake, find_mistakes, most_confident
from .protocol import SHARED_STAGES, evaluate, evaluate_all, score_model
from .results import Evaluation, Skipped, class_accuracies, count_confusions
from .splits import split_by_class, split_seeds

__all__ = [
    "SHARED_STAGES",
    "Evaluation",
    "Groups",
    "Mistake",
    "Skipped",
    "Training",
    "class_accuracies",
    "count_confusions",
    "count_leaks",
    "evaluate",
    "evaluate_all",
    "find_groups",
    "find_mistakes",
    "most_confident",
    "name_groups",
    "score_model",
    "split_by_class",
    "split_seeds",
    "train_with_estimate",
]
