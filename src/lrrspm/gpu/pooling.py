"""Codes and their pooling for many images at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import torch

from ..descriptors import Projection
from ..encoders import LRREncoder, LRRWeightEncoder
from ..pooling import MaxPooling, MomentPooling, SpatialPyramid
from .batches import Members
from .device import has_kernels, send


class Sent(Protocol):
    """Fitted arrays on the device, once, and what is made of them there."""

    def __call__(self, array: Any, prepare: Callable[[torch.Tensor], Any] | None = None) -> Any: ...


def pool_maxima(
    encoder: LRREncoder,
    pooling: MaxPooling,
    pyramid: SpatialPyramid,
    values: torch.Tensor,
    members: Members,
    sent: Sent,
    projection: None,
) -> torch.Tensor:
    """Return vectors (B, cells of all levels * k): the largest low-rank codes of each cell.

    Parameters
    ----------
    values : tensor of shape (B, n, m)
    members : Members
    """
    atoms, total = sent(encoder.projection_), sent(encoder.total_)
    share = encoder.threshold / encoder.n_atoms
    if has_kernels(values) and values.shape[2] == 128 and share > 0 and not encoder.normalize_codes:
        from .products import pool_codes, split_atoms

        fine = pool_codes(values, members, sent(encoder.projection_, split_atoms), total, share)
    else:
        by_cell = members.take(values)
        rows = [
            truncated(cell, atoms, total, share, encoder.normalize_codes).abs().amax(1)
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
        reduce(fine.index_select(1, part.flatten()).unflatten(1, part.shape), 2)
        for part in _parts(pyramid, fine.device)
    ]


@lru_cache(maxsize=64)
def _parts(pyramid: SpatialPyramid, device: torch.device) -> list[torch.Tensor]:
    """Finest cells of the cells of each level, (cells, finest cells of each)."""
    return [
        send(
            grid.parents.argsort(kind="stable").reshape(grid.rows.stop - grid.rows.start, -1),
            device,
        )
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
    sent: Sent,
    projection: Projection | None,
) -> torch.Tensor:
    """Return vectors (B, cells of all levels * width) of moments, weighted by low-rank codes.

    Parameters
    ----------
    values : tensor of shape (B, n, m)
    members : Members
    projection : fitted Projection or None
        Of the values.
    """
    position = 0.0 if projection is None else float(projection.position)
    if projection is None:
        origin = values.new_zeros(values.shape[2])
    else:
        components = sent(projection.components_)
        origin = sent(projection.mean_) @ components
        values = values @ components
    parts = sent(encoder.projection_), sent(encoder.offset_)
    means, deviations = sent(pooling.means_), sent(pooling.deviations_)
    shares = sent(pooling.shares_).clamp_min(1e-12)
    slopes, bend = 1 / (deviations * shares.sqrt()[:, None]), (2 * shares).rsqrt()
    scales = means, slopes, 1 / deviations.square(), bend
    if has_kernels(values):
        from .moments import finish_moments, fit_program, sum_moments

        found = sum_moments(
            values, origin, members, position, *parts,
            encoder.survivors, encoder.power, pooling.order,
        )  # fmt: skip
        finish = finish_moments if fit_program(*means.shape) else _finish
        return _divided(finish(*found, pyramid, *scales), pooling.norm)
    values = members.take(values - origin)
    if position > 0:
        values = torch.cat([values, members.places * position], -1)
    weights = weigh(values @ parts[0] + parts[1], encoder)
    weights = weights * (members.rows >= 0)[..., None]
    powers = [values, values.square()][: pooling.order]
    sums = torch.stack([weights.mT @ one for one in powers], 2)
    return _divided(_finish(weights.sum(2), sums, pyramid, *scales), pooling.norm)


def _finish(
    totals: torch.Tensor,
    sums: torch.Tensor,
    pyramid: SpatialPyramid,
    means: torch.Tensor,
    slopes: torch.Tensor,
    inverse: torch.Tensor,
    bend: torch.Tensor,
) -> torch.Tensor:
    """Center the sums of cells, take roots and normalize them; see ``finish_moments``."""
    levels = []
    for total, moments in zip(
        _merge(totals, pyramid, torch.sum), _merge(sums, pyramid, torch.sum), strict=True
    ):
        weight, first = total[..., None], moments[:, :, 0]
        both = [(first - weight * means) * slopes]
        if moments.shape[2] == 2:
            spread = moments[:, :, 1] - means * (2 * first - weight * means)
            both.append((spread * inverse - weight) * bend[:, None])
        merged = torch.cat([part.flatten(2) for part in both], 2)
        norm = (merged.abs().sum(2, keepdim=True) * merged.shape[1]).sqrt()
        roots = merged.abs().sqrt().copysign(merged)
        levels.append(roots / torch.where(norm > 0, norm, 1.0))
    return torch.cat(levels, 1).flatten(1)


def weigh(z: torch.Tensor, encoder: LRRWeightEncoder) -> torch.Tensor:
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
