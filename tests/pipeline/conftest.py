"""Clusters that live as long as a file of tests."""

import pytest

from .clusters import Cluster


@pytest.fixture(scope="module")
def dask_cluster(tmp_path_factory):
    """A scheduler without workers, that gives up on a task after one of its workers died."""
    pytest.importorskip("distributed")
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), allowed_failures=1)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A scheduler with two workers."""
    pytest.importorskip("distributed")
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start_workers(2)
        yield cluster
    finally:
        cluster.close()
