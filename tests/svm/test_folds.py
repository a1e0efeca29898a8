import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lrrspm.svm import stratified_folds


@given(
    labels=st.lists(st.integers(0, 4), min_size=2, max_size=60),
    n_folds=st.integers(2, 10),
    seed=st.integers(0, 100),
)
def test_each_class_is_spread_evenly(labels, n_folds, seed):
    y = np.array(labels)
    folds = stratified_folds(y, seed, n_folds=n_folds)
    names, counts = np.unique(y, return_counts=True)
    if (counts > 1).sum() < 2:
        assert (folds == -1).all()
        return
    assert (folds >= 0).tolist() == (counts > 1)[np.searchsorted(names, y)].tolist()
    assert set(folds[folds >= 0]) == set(range(folds.max() + 1))
    for name in names[counts > 1]:
        per_fold = np.bincount(folds[y == name], minlength=n_folds)
        assert per_fold.max() - per_fold.min() <= 1
    np.testing.assert_array_equal(folds, stratified_folds(y, seed, n_folds=n_folds))


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=2, max_size=60),
    seed=st.integers(0, 100),
)
def test_groups_stay_together(rows, seed):
    y, groups = np.array(rows).T
    folds = stratified_folds(y, seed, groups, n_folds=3)
    for group in np.unique(groups):
        own = folds[(groups == group) & (folds >= 0)]
        assert len(set(own)) <= 1
    for fold in range(folds.max() + 1):  # no class is tested that the others do not know
        assert set(y[folds == fold]) <= set(y[folds != fold])


def test_groups_of_one_class_are_in_no_fold():
    y = np.repeat([0, 1, 2], 4)
    groups = np.array([0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6])
    folds = stratified_folds(y, 0, groups)
    assert (folds[:4] == -1).all()
    assert (folds[4:] >= 0).all()
