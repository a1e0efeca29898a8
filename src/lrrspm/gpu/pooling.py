"""Codes and their pooling for many images at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from ..encoders import LRREncoder, LRRWeightEncoder
from ..pooling import MaxPooling, MomentPooling, SpatialPyramid
from .batches import Members

Send = Callable[[object], torch.Tensor]
"""Puts a NumPy array on the device."""


def pool_maxima(
    encoder: LRREncoder,
    pooling: MaxPooling,
    pyramid: SpatialPyramid,
    values: torch.Tensor,
    members: Members,
    send: Send,
) -> torch.Tensor:
    """Return vectors (B, cells of all levels * k): the largest low-rank codes of each cell.

    Parameters
    ----------
    values : tensor of shape (B, n, m)
    members : Members
    """
    projection, total = send(encoder.projection_), send(encoder.total_)
    share = encoder.threshold / encoder.n_atoms
    if values.is_cuda and values.shape[2] == 128 and share > 0 and not encoder.normalize_codes:
        from .products import pool_codes

        fine = pool_codes(values, members, projection.T.contiguous(), total, share)
    else:
        by_cell = members.take(values)
        rows = [
            truncated(cell, projection, total, share, encoder.normalize_codes).abs().amax(1)
            for cell in by_cell.unbind(1)
        ]
        fine = torch.stack(rows, 1)
    levels = _merge(fine, pyramid, torch.amax)
    return _divided(torch.cat(levels, 1).flatten(1), pooling.norm)


def _merge(
    fine: torch.Tensor, pyramid: SpatialPyramid, reduce: Callable[..., torch.Tensor]
) -> list[torch.Tensor]:
    """Reduce finest cells (B, cells, ...) to those of each level, in its order."""
    return [
        torch.stack([reduce(fine.index_select(1, part), 1) for part in parts], 1)
        for parts in _parts(pyramid, fine.device)
    ]


@lru_cache(maxsize=64)
def _parts(pyramid: SpatialPyramid, device: torch.device) -> list[list[torch.Tensor]]:
    """Finest cells of each cell of each level."""
    return [
        [
            torch.from_numpy(np.flatnonzero(grid.parents == cell)).to(device)
            for cell in range(grid.rows.stop - grid.rows.start)
        ]
        for grid in pyramid.grids()
    ]


def truncated(
    values: torch.Tensor,
    projection: torch.Tensor,
    total: torch.Tensor,
    share: float,
    normalize: bool,
) -> torch.Tensor:
    """Low-rank codes (..., k) of values (..., m), see :class:`lrrspm.LRREncoder`."""
    codes = values @ projection
    kept = codes
    if share > 0:
        limits = share * (values @ total)[..., None]
        kept = torch.where((codes - limits) * torch.where(limits >= 0, 1.0, -1.0) >= 0, codes, 0.0)
    if normalize:
        norms = codes.norm(dim=-1, keepdim=True)
        kept = kept / torch.where(norms > 0, norms, 1.0)
    return kept


def pool_moments(
    encoder: LRRWeightEncoder,
    pooling: MomentPooling,
    pyramid: SpatialPyramid,
    values: torch.Tensor,
    members: Members,
    send: Send,
) -> torch.Tensor:
    """Return vectors (B, cells of all levels * width) of moments, weighted by low-rank codes.

    Parameters
    ----------
    values : tensor of shape (B, cells, most, m)
        Projected descriptors by cell.
    members : Members
    """
    weights = _weights(values @ send(encoder.projection_) + send(encoder.offset_), encoder)
    weights = weights * (members.rows >= 0)[..., None]
    squares = [values.square()] if pooling.order == 2 else []
    sums = weights.mT @ torch.cat([values, *squares], -1)
    counts = weights.sum(2)
    means, deviations = send(pooling.means_), send(pooling.deviations_)
    shares = send(pooling.shares_).clamp_min(1e-12)[:, None]
    m = means.shape[1]
    levels = []
    for weight, total in zip(
        _merge(counts, pyramid, torch.sum), _merge(sums, pyramid, torch.sum), strict=True
    ):
        weight, first, second = weight[..., None], total[..., :m], total[..., m:]
        parts = [(first - weight * means) / (deviations * shares.sqrt())]
        if pooling.order == 2:
            spread = second - means * (2 * first - weight * means)
            parts.append((spread / deviations.square() - weight) / (2 * shares).sqrt())
        merged = torch.cat([part.flatten(2) for part in parts], 2)
        norm = (merged.abs().sum(2, keepdim=True) * merged.shape[1]).sqrt()
        roots = merged.abs().sqrt().copysign(merged)
        levels.append(roots / torch.where(norm > 0, norm, 1.0))
    return _divided(torch.cat(levels, 1).flatten(1), pooling.norm)


def _weights(z: torch.Tensor, encoder: LRRWeightEncoder) -> torch.Tensor:
    """Weights (..., k) from entries z, see :class:`lrrspm.encoders.LRRWeightEncoder`."""
    largest, place = z.max(-1, keepdim=True)
    shares = torch.where(z >= encoder.survivors * largest, z / largest, 0.0)
    shares = shares.square() if encoder.power == 2 else shares.pow(encoder.power)
    shares = shares / shares.sum(-1, keepdim=True)
    atoms = torch.arange(z.shape[-1], device=z.device)
    return torch.where(largest > 0, shares, (atoms == place).to(z.dtype))


def _divided(vectors: torch.Tensor, norm: str | None) -> torch.Tensor:
    if norm is None:
        return vectors
    length = vectors.norm(p=2 if norm == "l2" else 1, dim=1, keepdim=True)
    return vectors / torch.where(length > 0, length, 1.0)
