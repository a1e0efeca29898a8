"""Splits: which images train and which test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import config
from .._support.text import plural


def split_seeds(seed: int, splits: int) -> list[int]:
    """Return a seed per split; more splits do not change the seeds of the first ones."""
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(splits) >> 1]


def split_by_class(
    labels: NDArray[Any],
    train_per_class: float | None,
    seed: int,
    groups: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Draw training images from each class; returns sorted indices.

    ``train_per_class`` is the same number from each class; or, below 1, a share of
    each; or None: 100 images, but at most 0.8 of a class.

    A class with a single image trains with it and is not tested. With
    ``groups`` (N,), whole groups are drawn at random until a class has enough,
    and one of its groups at least is left to test; a class with too few
    groups then has fewer. Images of training groups that are more than
    enough are on neither side: see :func:`left_to_test`.
    """
    check_train_per_class(train_per_class)
    names, counts = np.unique(labels, return_counts=True)
    wanted = _wanted(counts, train_per_class)
    if not (counts > 1).any():
        raise ValueError("every class has 1 image; two or more are needed to train and test")
    if groups is None:
        check_enough(labels, train_per_class)
    rng = np.random.default_rng(seed)
    drawn = np.arange(len(labels))
    if groups is not None:
        drawn = _draw_groups(labels, wanted, rng, groups)
    chosen = []
    for name, most in zip(names, wanted, strict=True):
        members = drawn[labels[drawn] == name]
        enough = len(members) <= most
        chosen.append(members if enough else rng.choice(members, most, replace=False))
    return np.sort(np.concatenate(chosen))


def check_train_per_class(value: float | None) -> None:
    """Raise ValueError for what is neither a whole number nor a share."""
    if value is not None and not (0 < value < 1 or (float(value).is_integer() and value >= 1)):
        raise ValueError(
            f"train_per_class must be a whole number of at least 1, or a share between 0 and 1, "
            f"got {value:g}"
        )


def check_enough(labels: NDArray[Any], train_per_class: float | None) -> None:
    """Raise ValueError where the smallest class of two or more images leaves none to test."""
    names, counts = np.unique(labels, return_counts=True)
    names, counts = names[counts > 1], counts[counts > 1]
    if len(counts) and (counts.min() <= _wanted(counts, train_per_class)[counts.argmin()]):
        least = counts.min()
        raise ValueError(
            f"class '{names[counts.argmin()]}' has {plural(least, 'image')}; "
            f"{train_per_class:g} for training leave none to test; "
            f"use at most {least - 1} per class, or leave the class out"
        )


def _wanted(counts: NDArray[np.int64], train_per_class: float | None) -> NDArray[np.int64]:
    """Training images of each class (n_classes,) from its number of images (n_classes,)."""
    if train_per_class is not None and train_per_class >= 1:
        return np.full(len(counts), int(train_per_class))
    share = config.TRAIN_SHARE if train_per_class is None else train_per_class
    some = np.clip(np.rint(share * counts).astype(np.int64), 1, np.maximum(counts - 1, 1))
    return some if train_per_class is not None else np.minimum(some, config.TRAIN_PER_CLASS)


def left_to_test(
    train: NDArray[np.int64], n_images: int, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the images that may be tested: not trained on, nor in a group that is."""
    if groups is None:
        return np.setdiff1d(np.arange(n_images), train)
    test = np.flatnonzero(~np.isin(groups, groups[train]))
    if not len(test):
        raise ValueError("the groups leave nothing to test: every class is one group")
    return test


def given_split(
    labels: NDArray[Any], tests: NDArray[np.bool_]
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """Return training and test images of one split; classes that only test are left out."""
    train = np.flatnonzero(~tests)
    test = np.flatnonzero(tests & np.isin(labels, labels[train]))
    if not len(train) or not len(test):
        raise ValueError("a split needs images to train with, and test images of the same classes")
    return [train], [test]


def _draw_groups(
    labels: NDArray[Any],
    wanted: NDArray[np.int64],
    rng: np.random.Generator,
    groups: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Draw whole groups until each class has the wanted images; returns sorted indices.

    The last group of a class is not drawn, except of a class that has only one.
    """
    names, y = np.unique(labels, return_inverse=True)
    number = np.unique(groups, return_inverse=True)[1]
    counts = np.zeros((number.max() + 1, len(names)), np.int64)
    np.add.at(counts, (number, y), 1)
    left = (counts > 0).sum(axis=0)
    left[left == 1] = 2
    have = np.zeros(len(names), np.int64)
    drawn = np.zeros(len(counts), bool)
    for group in rng.permutation(len(counts)):
        here = counts[group] > 0
        if (have[here] < wanted[here]).any() and (left[here] > 1).all():
            drawn[group] = True
            have += counts[group]
            left[here] -= 1
    if not have.all():
        raise ValueError(
            f"class '{names[have.argmin()]}' shares all of its groups with other classes, so no "
            "split is possible"
        )
    return np.flatnonzero(drawn[number])
