"""What runs on a worker of a cluster around each chunk."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._support.parallel import single_blas_thread
from ..cache import makers
from .versions import check_identity


class Done(NamedTuple):
    """Results of a chunk, and the seconds that its worker took."""

    results: Sequence[Any]
    seconds: float


def run_chunk(
    expected: tuple[str, str],
    function: Callable[..., Sequence[Any]],
    shared: tuple[Any, ...],
    chunk: Sequence[Any],
) -> Done:
    """Compute a chunk; this runs on a worker, with BLAS on one thread."""
    check_identity(expected, makers(), "a worker")
    start = time.perf_counter()
    with single_blas_thread():
        results = function(*shared, chunk)
    return Done(results, time.perf_counter() - start)
