"""scikit-learn's own checks, in full, on the estimators that take matrices."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from lrrspm import KernelSVM, LinearSVM, LLCEncoder, LRREncoder, SparseEncoder, VQEncoder
from lrrspm.encoders import (
    KernelLRREncoder,
    LRRWeightEncoder,
    MixtureEncoder,
    SupervisedLRREncoder,
)


def expected_failures(estimator):
    if not isinstance(estimator, KernelSVM | LinearSVM):
        return {}
    failures = {
        "check_class_weight_classifiers": "without an intercept a class cannot have the whole "
        "plane: see test_class_weight_agrees_with_liblinear",
    }
    if getattr(estimator, "loss", None) != "squared":
        failures["check_sample_weight_equivalence_on_dense_data"] = (
            "equal to tol, not to 1e-7: see test_weight_is_the_number_of_copies"
        )
    return failures


@pytest.mark.filterwarnings("ignore:a codebook of")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LRREncoder(),
        LRREncoder(codebook_size=3, threshold=0),
        LRRWeightEncoder(),
        KernelLRREncoder(),
        KernelLRREncoder(codebook_size=3, kernel="rbf"),
        SupervisedLRREncoder(),
        VQEncoder(),
        LLCEncoder(),
        MixtureEncoder(),
        MixtureEncoder(codebook_size=3),
        SparseEncoder(),
        SparseEncoder(codebook_size=3, dictionary="sparse"),
        LinearSVM(),
        LinearSVM(loss="squared"),
        KernelSVM(),
        KernelSVM("chi2"),
        KernelSVM("precomputed"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
