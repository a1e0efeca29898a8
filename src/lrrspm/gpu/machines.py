"""Support vector machines on a device: Gram matrices, weights, scores, and all classes at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._support.devices import Held
from .device import single_precision

_COLUMNS = 4096
"""Columns per product. Matrix units add up with less than single precision, so sums are short."""
_MOST_STEPS = 100
_HALVINGS = 20


class DeviceMatrix(Held):
    """Vectors (n, d) on a device, made of blocks of rows.

    Parameters
    ----------
    n, d : int
    dtype : float16 or float32
    device : str
        Name of a device of torch.
    """

    def __init__(self, n: int, d: int, dtype: Any, device: str) -> None:
        self.shape: tuple[int, int] = (n, d)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        kind = torch.float16 if self.dtype == np.float16 else torch.float32
        self._rows = torch.empty((n, d), dtype=kind, device=device)
        self._filled = 0

    @classmethod
    def of(cls, rows: torch.Tensor) -> DeviceMatrix:
        """Return a matrix of rows that are on a device already."""
        matrix = cls.__new__(cls)
        matrix.shape, matrix._filled = (rows.shape[0], rows.shape[1]), len(rows)
        matrix.dtype = np.dtype(np.float16 if rows.dtype == torch.float16 else np.float32)
        matrix._rows = rows
        return matrix

    def append(self, block: DeviceMatrix) -> int:
        """Fill in the next rows, and return how many they are.

        Raises ValueError where a value is not finite, as shards do.
        """
        if not block.finite:
            raise ValueError("Input X contains NaN or infinity.")
        stop = self._filled + len(block._rows)
        if stop > self.shape[0]:
            raise ValueError(f"more than the {self.shape[0]} rows that were announced")
        self._rows[self._filled : stop] = block._rows
        self._filled = stop
        return len(block._rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self._rows.cpu().numpy().astype(dtype or self.dtype, copy=False)

    @property
    def finite(self) -> bool:
        """True if all values are."""
        return all(bool(part.isfinite().all()) for part in self._rows.split(64))

    def some(self, rows: NDArray[np.int64], columns: slice) -> DeviceMatrix:
        chosen = torch.from_numpy(rows).to(self._rows.device)
        return DeviceMatrix.of(self._rows[:, columns][chosen])

    def gram(self) -> NDArray[np.float32]:
        n = self.shape[0]
        gram = torch.zeros((n, n), device=self._rows.device)
        # In tf32 it would not be positive, and Newton's method would not converge.
        with single_precision():
            for columns in self._columns():
                gram += _square(self._rows[:, columns])
        return np.asarray(gram.cpu())

    def weights(self, betas: NDArray[Any]) -> NDArray[np.float32]:
        coefficients = torch.as_tensor(betas, dtype=torch.float32, device=self._rows.device)
        out = torch.empty((len(betas), self.shape[1]), device=self._rows.device)
        for columns in self._columns():
            torch.mm(coefficients, self._rows[:, columns].float(), out=out[:, columns])
        return np.asarray(out.cpu())

    def scores(self, weights: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray(self.scores_of(torch.as_tensor(weights)).cpu())

    def scores_of(self, weights: torch.Tensor) -> torch.Tensor:
        """``scores`` from weights that may be on the device, where they stay."""
        out = torch.zeros((self.shape[0], len(weights)), device=self._rows.device)
        for columns in self._columns():
            part = weights[:, columns].to(self._rows.device).float()
            out += self._rows[:, columns].float() @ part.T
        return out

    def _columns(self) -> Iterator[slice]:
        for first in range(0, self.shape[1], _COLUMNS):
            yield slice(first, min(first + _COLUMNS, self.shape[1]))


def gram_bytes(n: int) -> int:
    """Bytes that ``gram`` of n vectors takes: two matrices (n, n), and a block of columns."""
    return 4 * n * (2 * n + _COLUMNS)


def _square(part: torch.Tensor) -> torch.Tensor:
    """X X' of some columns: of halves by matrix units, whose products are exact."""
    if part.is_cuda and part.dtype == torch.float16:
        return torch.mm(part, part.T, out_dtype=torch.float32)
    wide = part.float()
    return wide @ wide.T


def solve_squared(
    gram: torch.Tensor, signs: torch.Tensor, costs: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """Solve (K + diag(1 / 2 c)) b = y for signs (classes, n) and costs (n,), all positive."""
    system = gram + torch.diag(1 / (2 * costs))
    return torch.cholesky_solve(signs.T, torch.linalg.cholesky(system)).T, 1


def solve_hinge(
    gram: torch.Tensor, signs: torch.Tensor, costs: torch.Tensor, tol: float, at_once: int
) -> tuple[torch.Tensor, int]:
    r"""Solve one-vs-rest problems with a squared hinge by Newton's method.

    .. math:: \min_\beta \tfrac12 \beta^T K \beta + \sum_i c_i \max(0, 1 - y_i f_i)^2,
              \qquad f = K \beta

    Where the same samples have a margin below 1 as at the solution, one linear system
    over these samples is the solution, so a few steps suffice. A class is done when
    primal and dual objective differ by less than ``tol`` of the primal one: with the dual
    variables :math:`\alpha_i = 2 c_i \max(0, 1 - y_i f_i)` by
    :math:`\tfrac12 g^T K g`, :math:`g_i = \beta_i - y_i \alpha_i`.

    Parameters
    ----------
    gram : tensor of shape (n, n), float64
    signs : tensor of shape (classes, n), float64
    costs : tensor of shape (n,), float64
        c, positive.
    at_once : int
        Classes whose systems are solved together.

    Returns
    -------
    tensor of shape (classes, n), and the steps of the slowest class
    """
    parts, most, unfinished = [], 0, 0
    for some in signs.split(at_once):
        betas, steps, left = _solve_some(gram, some, costs, tol)
        parts.append(betas)
        most = max(most, steps)
        unfinished += left
    if unfinished:
        warnings.warn(
            f"{unfinished} of {len(signs)} problems have not converged after {most} steps; "
            "scale the data, or raise tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return torch.cat(parts), most


def _solve_some(
    gram: torch.Tensor, signs: torch.Tensor, costs: torch.Tensor, tol: float
) -> tuple[torch.Tensor, int, int]:
    """Coefficients of a few classes, the steps they took, and how many did not converge."""
    betas = torch.zeros_like(signs)
    scores = torch.zeros_like(signs)
    value = _objectives(betas, scores, signs, costs)
    for step in range(_MOST_STEPS + 1):
        slacks = (1 - signs * scores).clamp_min(0)
        away = betas - signs * 2 * costs * slacks
        gaps = 0.5 * (away * (away @ gram)).sum(1)
        open_ = torch.nonzero(gaps > tol * value)[:, 0]
        if not len(open_) or step == _MOST_STEPS:
            break
        found = _newton(gram, signs[open_], costs, slacks[open_] > 0)
        there = found @ gram
        new = _objectives(found, there, signs[open_], costs)
        # The step may go too far: halve it until the objective falls.
        share = torch.ones((len(open_), 1), dtype=signs.dtype, device=signs.device)
        for _ in range(_HALVINGS):
            worse = new > value[open_]
            if not bool(worse.any()):
                break
            share = torch.where(worse[:, None], share / 2, share)
            mixed = (
                betas[open_] + share * (found - betas[open_]),
                scores[open_] + share * (there - scores[open_]),
            )
            new = _objectives(*mixed, signs[open_], costs)
        betas[open_] += share * (found - betas[open_])
        scores[open_] += share * (there - scores[open_])
        value[open_] = new
    return betas, step, len(open_)


def _objectives(
    betas: torch.Tensor, scores: torch.Tensor, signs: torch.Tensor, costs: torch.Tensor
) -> torch.Tensor:
    slacks = (1 - signs * scores).clamp_min(0)
    return 0.5 * (betas * scores).sum(1) + (costs * slacks.square()).sum(1)


def _newton(
    gram: torch.Tensor, signs: torch.Tensor, costs: torch.Tensor, active: torch.Tensor
) -> torch.Tensor:
    """Solve (K + diag(1 / 2 c)) b = y over each class's active samples; others have b = 0."""
    if bool(active.all()):  # as in the first step: one system for all classes
        return solve_squared(gram, signs, costs)[0]
    count = int(active.sum(1).max())
    order = torch.argsort(active.byte(), descending=True, stable=True)[:, :count]
    on = active.gather(1, order)
    systems = gram[order[:, :, None], order[:, None, :]]
    systems *= on[:, :, None] & on[:, None, :]
    diagonal = torch.where(on, 1 / (2 * costs[order]), 1.0)
    systems.diagonal(dim1=1, dim2=2).add_(diagonal)
    targets = signs.gather(1, order) * on
    found = torch.cholesky_solve(targets[:, :, None], torch.linalg.cholesky(systems))[:, :, 0]
    return torch.zeros_like(signs).scatter_(1, order, found)
