"""Connecting: a scheduler from its address, and the workers that it has."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from . import cluster
from .cluster import Cluster
from .versions import ClusterError

if TYPE_CHECKING:
    from distributed import Client

_SCHEMES = {"dask": "tcp", "tcp": "tcp", "tls": "tls"}
_INSTALL = "pip install 'lrrspm[dask]'"


def scheduler_address(engine: str) -> str:
    """Return the address of a scheduler as Dask has it.

    >>> scheduler_address("dask://head:8786")
    'tcp://head:8786'
    """
    scheme, separator, host = engine.partition("://")
    if not separator or scheme not in _SCHEMES or not host.strip("/"):
        raise ValueError(
            f"engine {engine!r}: expected threads, processes, dask://HOST:PORT or tls://HOST:PORT"
        )
    host = host.rstrip("/")
    return f"{_SCHEMES[scheme]}://{host if ':' in host else f'{host}:8786'}"


@contextmanager
def open_cluster(engine: str | Client) -> Iterator[Cluster]:
    """Connect to a scheduler, or take the caller's client; check the workers' versions.

    Certificates of ``tls://`` are those of Dask's own configuration.
    """
    if not isinstance(engine, str):
        if not hasattr(engine, "scheduler_info"):
            raise TypeError(
                "engine is a name, an address, an executor or a client of distributed, "
                f"got {type(engine).__name__}"
            )
        yield Cluster(engine)
        return
    address = scheduler_address(engine)
    try:
        from distributed import Client, Security
    except ImportError:
        raise ImportError(f"{engine}: needs Dask: {_INSTALL}") from None
    secure = address.startswith("tls://")
    if secure and Security().get_connection_args("client").get("ssl_context") is None:
        raise ClusterError(
            f"{engine}: needs certificates: set distributed.comm.tls in Dask's configuration"
        )
    # Its messages name no remedy; ours do.
    logger = logging.getLogger("distributed")
    level, warned = logger.level, logging.getLogger("distributed.client")
    before = warned.level
    logger.setLevel(logging.CRITICAL)
    warned.setLevel(logging.CRITICAL)
    try:
        try:
            # Vectors come from workers; by way of the scheduler they would be copied once more.
            client = Client(
                address, timeout=cluster.CONNECT, set_as_default=False, direct_to_workers=True
            )
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"{engine}: no Dask scheduler answers ({_first_line(error)}); "
                "start one with: dask scheduler"
            ) from None
        try:
            yield Cluster(client)
        finally:
            client.close()
    finally:
        logger.setLevel(level)
        warned.setLevel(before)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
