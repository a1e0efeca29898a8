"""Training on more vectors than memory: workers write and read them, the driver has sums."""

import errno
import hashlib
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest

from lrrspm import ImageClassifier, LRREncoder, find_images
from lrrspm._support import shard
from lrrspm._support.shards import Shard, ShardError
from lrrspm._support.stages import Stages
from lrrspm.cache import FeatureStore
from lrrspm.images import ImageError
from lrrspm.pipeline import Engine, open_engine
from lrrspm.pipeline.cluster import Cluster as WorkersOfDask
from lrrspm.pipeline.spreading import fill_shards, open_shards

from .. import buckets
from .clusters import die_at_a_shard, fill_the_disk

pytestmark = pytest.mark.network


@pytest.fixture(params=["primal", "dual"])
def beyond_memory(monkeypatch, request):
    """No vectors in memory, a Gram matrix for the dual alone, and shards of 16 rows."""
    monkeypatch.setattr("lrrspm.training.MEMORY", 1)
    if request.param == "primal":
        monkeypatch.setattr("lrrspm.svm.stored.GRAM_BYTES", 0)
    monkeypatch.setattr(shard, "_MOST_ROWS", 16)


def classifier(**given):
    return ImageClassifier(
        LRREncoder(codebook_size=8), n_samples=500, random_state=0, n_jobs=2, C=0.01, **given
    )


def train(folder, target, **given):
    classifier(**given).fit(*find_images(folder)).save(target)
    return hashlib.sha256(target.read_bytes()).hexdigest()


class Opened:
    """Files of shards that this process reads or writes."""

    def __init__(self, monkeypatch):
        self.count = 0
        for name in ("_opened", "write"):
            monkeypatch.setattr(Shard, name, self._counting(getattr(Shard, name)))

    def _counting(self, function):
        def counted(shard, *arguments, **named):
            self.count += shard.columns > 1  # a single number is there to try the folder out
            return function(shard, *arguments, **named)

        return counted


@pytest.mark.usefixtures("beyond_memory")
def test_the_driver_opens_no_vectors(two, image_folder, tmp_path, monkeypatch):
    expected = train(image_folder, tmp_path / "model")
    opened = Opened(monkeypatch)
    # 36 images are three shards. Sizes are looked at once, and nothing is read.
    monkeypatch.setattr(Shard, "check", lambda shard: None)
    assert train(image_folder, tmp_path / "model", engine=two.engine, cache=tmp_path / "s") == (
        expected
    )
    assert opened.count == 0
    assert list((tmp_path / "s" / ".training").iterdir()) == []
    # Without a folder that workers share, vectors come to the driver, and bits are the same.
    assert train(image_folder, tmp_path / "model", engine=two.engine) == expected
    assert opened.count > 0


@pytest.fixture
def bucket(two, tmp_path, monkeypatch):
    """An object store that the driver and all workers reach."""
    from distributed import Client

    monkeypatch.setenv(buckets.ROOT, "")
    buckets.serve(tmp_path / "bucket")
    (tmp_path / "bucket").mkdir()
    with Client(two.address, set_as_default=False) as client:
        client.run(buckets.serve, tmp_path / "bucket")
    return tmp_path / "bucket"


@pytest.mark.usefixtures("beyond_memory")
def test_workers_share_an_object_store(two, bucket, image_folder, tmp_path, monkeypatch):
    expected = train(image_folder, tmp_path / "model")
    opened = Opened(monkeypatch)
    cold = train(image_folder, tmp_path / "model", engine=two.engine, cache="bucket://store")
    warm = train(image_folder, tmp_path / "model", engine=two.engine, cache="bucket://store")
    assert (cold, warm) == (expected, expected)
    assert opened.count == 0
    assert len(list(bucket.glob("store/vectors/*/*.safetensors"))) == 3
    assert list(bucket.glob("store/.training/*/*")) == []
    # Each worker has a memory of its own, which is noticed.
    assert train(image_folder, tmp_path / "model", engine=two.engine, cache="memory://s") == (
        expected
    )
    assert opened.count > 0


@pytest.mark.usefixtures("beyond_memory")
def test_processes_write_the_shards(image_folder, tmp_path, monkeypatch):
    expected = train(image_folder, tmp_path / "model")
    monkeypatch.setattr(Shard, "write", None)  # nobody here may
    assert train(image_folder, tmp_path / "model", engine="processes") == expected


@pytest.mark.usefixtures("beyond_memory")
def test_workers_may_die_while_shards_are_read(two, image_folder, tmp_path):
    from distributed import Client

    expected = train(image_folder, tmp_path / "model")
    token = tmp_path / "token"
    token.touch()
    with Client(two.address, set_as_default=False) as client:
        client.run(die_at_a_shard, str(token))
    try:
        found = train(image_folder, tmp_path / "model", engine=two.engine, cache=tmp_path / "s")
        dead = [worker for worker in two.workers if worker.poll() is not None]
    finally:
        two.workers = [worker for worker in two.workers if worker.poll() is None]
        two.start_workers(2 - len(two.workers))
    assert found == expected
    assert not token.exists()
    assert len(dead) == 1


@pytest.mark.usefixtures("beyond_memory")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_when_a_worker_writes_a_shard(two, image_folder, tmp_path, number):
    from distributed import Client

    with Client(two.address, set_as_default=False) as client:
        client.run(fill_the_disk, number)
    try:
        with pytest.raises(ShardError, match=r"no room for 36 vectors.*keep the store in a folder"):
            train(image_folder, tmp_path / "model", engine=two.engine, cache=tmp_path / "s")
    finally:
        for worker in list(two.workers):  # one of them would still fail
            two.kill(worker)
        two.start_workers(2)
    # What was computed is in the store.
    expected = train(image_folder, tmp_path / "model")
    found = train(image_folder, tmp_path / "model", engine=two.engine, cache=tmp_path / "s")
    assert found == expected
    # A worker may have been killed while it wrote; the run after it deletes what that left.
    assert list((tmp_path / "s" / ".training").iterdir()) == []


def test_a_folder_that_is_not_shared_is_noticed(two, tmp_path):
    with open_engine(1, two.engine) as engine:
        workers = engine.executor
        assert isinstance(workers, WorkersOfDask)
        features = fitted(tmp_path)
        with open_shards(features, 3, engine, FeatureStore(None)) as shards:
            assert not shards.apart
            assert shards.spread is None
        with open_shards(features, 3, engine, FeatureStore(tmp_path / "store")) as shards:
            assert shards.apart
            assert shards.spread is not None
    with ThreadPoolExecutor(1) as strange:  # whose machines are unknown
        engine = Engine(None, strange)
        with open_shards(features, 3, engine, FeatureStore(tmp_path / "store")) as shards:
            assert not shards.apart


class Workers(ThreadPoolExecutor):
    """Workers that see the folder; ``write`` is what happens when they write there."""

    map_chunks = None  # as engines that compute elsewhere have it

    def __init__(self, write):
        super().__init__(1)
        self.write = write

    def everywhere(self, function, *arguments):
        with patch.object(Shard, "write", self.write):
            return [function(*arguments)]


def refuse(shard, blocks):
    raise PermissionError(shard.path)


def write_elsewhere(shard, blocks):
    return len(shard)


@pytest.mark.parametrize("write", [Shard.write, refuse, write_elsewhere])
def test_a_folder_that_cannot_be_written_to_is_noticed(tmp_path, write):
    engine, store = Engine(None, Workers(write)), FeatureStore(tmp_path / "store")
    with open_shards(fitted(tmp_path), 3, engine, store) as shards:
        assert shards.apart == (write is Shard.write)
        assert (shards.spread is not None) == (write is Shard.write)
    assert list((tmp_path / "store" / ".training").iterdir()) == []


def fitted(folder):
    rng = np.random.default_rng(0)
    images = list(rng.random((4, 40, 40), dtype=np.float32))
    features = classifier().new_features().set_params(random_state=0)
    return features.fit(images)


def test_unreadable_images_are_named(two, image_folder, tmp_path):
    paths = [*find_images(image_folder)[0][:20], str(tmp_path / "lost.png")]
    features, store = fitted(tmp_path), FeatureStore(tmp_path / "store")
    with open_engine(1, two.engine) as engine, open_shards(features, 21, engine, store) as shards:
        found = fill_shards(shards, features, paths, engine, Stages(), True, store)
        assert list(found.skipped) == [20]
        with pytest.raises(RuntimeError):
            list(shards)
        with pytest.raises(ImageError, match=r"lost\.png"):
            fill_shards(shards, features, paths, engine, Stages(), False, store)
