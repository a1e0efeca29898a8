"""k-means on a device: nearest centers of all descriptors at once."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._support.devices import Nearest
from .device import has_kernels

_ROWS = 2**18
"""Rows at a time where all of them would need another matrix."""


class DeviceRows:
    """Descriptors (n, m) on a device.

    Parameters
    ----------
    values : array of shape (n, m), float32
    device : str
    """

    def __init__(self, values: NDArray[np.float32] | torch.Tensor, device: str) -> None:
        self._values = torch.as_tensor(values).to(device)
        self._scale: float | None = None

    def __len__(self) -> int:
        return len(self._values)

    def center(self) -> NDArray[np.float32]:
        """Subtract the mean (m,), and return it."""
        total: Any = sum(part.double().sum(0) for part in self._values.split(_ROWS))
        origin = (total / len(self)).float()
        self._values, self._scale = self._values - origin, None
        return np.asarray(origin.cpu())

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return some rows."""
        return np.asarray(self._values[torch.from_numpy(rows).to(self._values.device)].cpu())

    def nearest(self, centers: NDArray[np.float32], executor: Executor | None = None) -> Nearest:
        """Assign every row to its nearest center."""
        if has_kernels(self._values) and self._scale is None:
            from .products import scale_of

            self._scale = scale_of(self._values)  # reads all rows: once, not in each iteration
        found, scores = find_nearest(self._values, self._send(centers), self._scale)
        groups = found.long()
        counts = torch.bincount(groups, minlength=len(centers))
        sums = _sum_groups(self._values, groups, counts)
        distances = torch.cat([part.square().sum(1) for part in self._values.split(_ROWS)])
        distances = (distances - 2 * scores).clamp_min(0)

        def farthest(count: int) -> NDArray[np.int64]:
            rows = torch.argsort(distances, descending=True, stable=True)[:count]
            return np.asarray(rows[distances[rows] > 0].cpu())

        total = float(distances.sum(dtype=torch.float64))
        return Nearest(np.asarray(sums.cpu()), np.asarray(counts.double().cpu()), total, farthest)

    def _send(self, centers: NDArray[np.float32]) -> torch.Tensor:
        return torch.from_numpy(centers).to(self._values.device)


def find_nearest(
    values: torch.Tensor, centers: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest center of each row (n,), and x.d - |d|^2 / 2 of the two.

    ``scale`` is that of the values for a GPU, see :func:`.products.scale_of`, if it is known.
    """
    if has_kernels(values):
        from .products import nearest

        return nearest(values, centers, scale=scale)
    offsets = 0.5 * centers.square().sum(1)
    parts = [torch.max(part @ centers.T - offsets, 1) for part in values.split(_ROWS)]
    return torch.cat([part[1] for part in parts]), torch.cat([part[0] for part in parts])


def _sum_groups(values: torch.Tensor, groups: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Sums (k, m) of the rows of each group, float64; a group is summed in order."""
    if not has_kernels(values):
        sums = torch.zeros((len(counts), values.shape[1]), dtype=torch.float64)
        return sums.index_add_(0, groups, values.double())
    from .products import sums_of_rows

    order = torch.argsort(groups.int(), stable=True)
    starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return sums_of_rows(values, order, starts)
