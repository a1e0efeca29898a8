"""scikit-learn's own checks, in full, on the estimators that take matrices."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from lrrspm import KernelSVM, LinearSVM, LLCEncoder, LRREncoder, SparseEncoder, VQEncoder
from lrrspm.encoders import KernelLRREncoder, MixtureEncoder, SupervisedLRREncoder


@pytest.mark.filterwarnings("ignore:a codebook of")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LRREncoder(),
        LRREncoder(codebook_size=3, threshold=0),
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
        KernelSVM(),
        KernelSVM("chi2"),
        KernelSVM("precomputed"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
