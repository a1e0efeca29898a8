"""Calibration: scores -> probabilities, by one temperature; and how familiar an image is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from .dual import Floats

# Temperatures that are tried: scores are margins, so they are of the order of 1.
_COLDEST, _HOTTEST = 1e-3, 1e3
_THRESHOLD_PENALTY = 0.01


def fit_temperature(
    scores: Floats, indices: NDArray[np.int64], doubt: float | None = None
) -> float:
    r"""Find the temperature at which probabilities fit labels best.

    .. math:: \min_T -\sum_i \big((1 - \epsilon) \log p_{i, y_i}
              + \tfrac{\epsilon}{k - 1} \sum_{c \ne y_i} \log p_{ic}\big),
              \qquad p_{ic} \propto \exp(s_{ic} / T)

    with epsilon = 1 / (n + 2), Laplace's doubt: of n samples that are all right, the next
    one is right with a probability of (n + 1) / (n + 2). Without it a few samples that
    are told apart would make every answer certain.

    Parameters
    ----------
    scores : array of shape (n, n_classes)
        Of samples that the machine was not trained on.
    indices : array of shape (n,)
        Number of each sample's class.
    doubt : float or None
        Epsilon; None is Laplace's.
    """
    rows = np.arange(len(indices))
    if doubt is None:
        doubt = 1 / (len(rows) + 2)
    # Shifted, so that large scores cannot overflow at low temperatures.
    shifted = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)

    def loss(inverse: float) -> float:
        logs = log_softmax(np.exp(inverse) * shifted, axis=1)
        right = logs[rows, indices]
        wrong = (logs.sum(axis=1) - right) / (logs.shape[1] - 1)
        return -float(((1 - doubt) * right + doubt * wrong).mean())

    found = minimize_scalar(
        loss, bounds=(-np.log(_HOTTEST), -np.log(_COLDEST)), method="bounded",
        options={"xatol": 1e-4},
    )  # fmt: skip
    return float(np.exp(-found.x))


def fit_thresholds(
    scores: Floats, indices: NDArray[np.int64], weights: Floats
) -> tuple[NDArray[np.float64], float]:
    r"""Find what to add to the score of each class, and the temperature, for weighted samples.

    .. math:: \min_{b, T} -\frac{1}{\sum_i v_i} \sum_i v_i \log p_{i, y_i} + \mu \|b\|^2,
              \qquad p_{ic} \propto \exp\big((s_{ic} + b_c) / T\big)

    Hard margins leave a rare class little room whatever its samples weigh; b gives
    it some.

    Parameters
    ----------
    scores : array of shape (n, n_classes)
        Of samples that the machine was not trained on.
    indices, weights : arrays of shape (n,)
        Number of each sample's class; v.

    Returns
    -------
    b : array of shape (n_classes,)
        Its sum is 0.
    temperature : float
    """
    rows, n_classes = np.arange(len(indices)), scores.shape[1]
    scores, shares = scores.astype(np.float64), weights.astype(np.float64) / weights.sum()

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        inverse, b = np.exp(values[0]), values[1:]
        exponents = inverse * (scores + b)
        logs = log_softmax(exponents, axis=1)
        change = np.exp(logs)
        change[rows, indices] -= 1
        change *= shares[:, None]
        gradient = np.append((change * exponents).sum(), inverse * change.sum(axis=0))
        gradient[1:] += 2 * _THRESHOLD_PENALTY * b
        return -float(shares @ logs[rows, indices]) + _THRESHOLD_PENALTY * float(b @ b), gradient

    start = np.append(-np.log(fit_temperature(scores, indices)), np.zeros(n_classes))
    bounds = [(-np.log(_HOTTEST), -np.log(_COLDEST)), *[(None, None)] * n_classes]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found[1:] - found[1:].mean(), float(np.exp(-found[0]))


def probabilities(scores: Floats, temperature: float) -> NDArray[np.float64]:
    """Return probabilities (n, n_classes) for scores (n, n_classes); rows sum to 1."""
    return np.asarray(softmax(scores.astype(np.float64) / temperature, axis=1))


def familiarity(scores: Floats, temperature: float) -> NDArray[np.float64]:
    r"""Return how far the likely classes stand out from all, (n,), for scores (n, n_classes).

    .. math:: \log \sum_c \exp\big((s_c - \bar s) / T\big)

    An image of a class that the machine does not know has scores that are much
    alike, also where one of two has all the probability.
    """
    centered = scores.astype(np.float64) - scores.mean(axis=1, keepdims=True, dtype=np.float64)
    return np.asarray(logsumexp(centered / temperature, axis=1))
