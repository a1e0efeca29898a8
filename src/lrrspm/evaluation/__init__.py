"""Evaluation: how good a classifier is, measured on images it was not trained on."""

from .estimates import Training, train_with_estimate
from .mistakes import Mistake, find_mistakes, most_confident
from .protocol import SHARED_STAGES, evaluate, evaluate_all, score_model
from .results import Evaluation, Skipped, class_accuracies, count_confusions
from .review import Review, Suspect, review
from .splits import split_by_class, split_seeds
from .tuning import Candidate, Tuning, tune

__all__ = [
    "SHARED_STAGES",
    "Candidate",
    "Evaluation",
    "Mistake",
    "Review",
    "Skipped",
    "Suspect",
    "Training",
    "Tuning",
    "class_accuracies",
    "count_confusions",
    "evaluate",
    "evaluate_all",
    "find_mistakes",
    "most_confident",
    "review",
    "score_model",
    "split_by_class",
    "split_seeds",
    "train_with_estimate",
    "tune",
]
