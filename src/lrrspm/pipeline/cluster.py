"""Cluster: chunks computed by the workers of a Dask scheduler, with the bits of one machine."""

from __future__ import annotations

import pickle
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from .._support.files import absolute_paths
from .._support.text import plural
from ..cache import makers
from .versions import ClusterError, check_answer, identity, question
from .worker import Done, run_chunk

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")

SECONDS = 2.0
"""What a chunk should take: far more than Dask's own milliseconds per task."""

MOST = 512
"""Most items of a chunk."""

PATIENCE = 30.0
"""Seconds, at least, to wait for the oldest chunk before another worker computes it too."""

SLOW = 4.0
"""That many times the slowest chunk so far is too long."""

SILENT = 5.0
"""Seconds without a sign of life after which a worker counts as hanging."""

ALONE = 120.0
"""Seconds to wait for a worker while there is none."""

CONNECT = 10.0
"""Seconds to wait for an answer of the scheduler."""

ANSWER = 30.0
"""Seconds to wait for the workers to say what they are."""

LOST = 2
"""Results of one chunk that workers have, and that never arrive, before the run ends."""


class _Chunk:
    """Items under way: their task, and a second one where the first is slow; results lost."""

    def __init__(self, items: Sequence[Any], future: Future[Any]) -> None:
        self.items, self.futures = items, [future]
        self.lost = 0

    def cancel(self) -> None:
        for future in self.futures:
            if future.client.status == "running":  # a closed one has dropped its tasks
                future.cancel()


class Cluster(Executor):
    """The workers of a Dask scheduler.

    Results are taken in order, each chunk's once. A chunk whose worker dies is
    computed by another; one whose worker is slow, by another too, and the first
    result counts. Both have the same bits.

    Parameters
    ----------
    client : distributed.Client

    Raises
    ------
    VersionError
        For a scheduler or worker with another version of lrrspm.
    ClusterError
        Where there is no worker.
    """

    def __init__(self, client: Client) -> None:
        if client.status != "running":
            raise ClusterError("the Dask client is closed; set engine to one that is open")
        self._client = client
        self._name = str(client.scheduler.address) if client.scheduler else "the scheduler"
        self._expected = identity(makers())
        self._threads, self._counted = 0, 0.0
        self._slowest = 0.0
        self._direct = bool(getattr(client, "direct_to_workers", False))
        self._detour = False  # by way of the scheduler
        self._check_scheduler()
        self._wait_for_workers()
        self._check_workers()

    def submit(self, function: Callable[..., R], /, *args: Any, **named: Any) -> Any:
        """Compute something else on a worker; returns a future of Dask."""
        return self._client.submit(function, *args, **named, pure=False)

    def everywhere(self, function: Callable[..., R], *args: Any) -> list[R]:
        """Call a function on every worker that shows signs of life."""
        return list(self._ask(function, *args).values())

    def map_chunks(
        self,
        function: Callable[..., Sequence[R]],
        items: Sequence[T],
        shared: tuple[Any, ...],
        first: int,
        most: int | None = None,
    ) -> Iterator[R]:
        """Apply ``function(*shared, chunk)`` to chunks of items, ``first`` at first; in order.

        Chunks grow until they take about two seconds, up to ``most`` items, and become
        small again at the end. Few are under way at a time.
        """
        import cloudpickle

        content = cloudpickle.dumps(tuple(map(absolute_paths, shared)))
        where: list[str] | None = None
        # A task, not scattered data: if its worker dies, another can make it again.
        common = self._submit(pickle.loads, content)
        waiting: deque[_Chunk] = deque()
        place, size = 0, first

        def start(chunk: Sequence[T]) -> Future[Any]:
            return self._submit(run_chunk, self._expected, function, common, chunk, workers=where)

        try:
            while place < len(items) or waiting:
                while place < len(items) and len(waiting) < 2 * self._count() + 2:
                    left = len(items) - place
                    stop = place + max(1, min(size, left // (2 * self._threads)))
                    chunk = list(map(absolute_paths, items[place:stop]))
                    place += len(chunk)
                    waiting.append(_Chunk(chunk, start(chunk)))
                while (done := self._result(waiting[0])) is None:
                    late, where = self._late(waiting)
                    if late:  # what all need may be on a worker that hangs
                        common = self._submit(pickle.loads, content, workers=where)
                        for one in late:
                            one.futures.append(start(one.items))
                    where = None  # chunks to come may go anywhere
                waiting.popleft()
                self._slowest = max(self._slowest, done.seconds)
                each = done.seconds / len(done.results)
                size = max(1, min(most or MOST, 4 * size, int(SECONDS / max(each, 1e-6))))
                yield from done.results
        finally:
            for chunk_left in waiting:
                chunk_left.cancel()

    def _submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        import dask

        # Fitted parts may be large; they travel once.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
            return self._client.submit(function, *arguments, pure=False, **options)

    def _ask(self, function: Callable[..., R], *args: Any) -> dict[str, R]:
        """Call a function on every worker that shows signs of life; returns answers by address.

        Not by ``client.run`` alone, which waits for a worker that hangs without an end.
        """
        well = sorted(self._well(self._workers()))
        answers: Queue[dict[str, R] | BaseException] = Queue()

        def ask() -> None:
            try:
                answers.put(self._client.run(function, *args, workers=well))
            except BaseException as error:
                answers.put(error)

        Thread(target=ask, daemon=True).start()
        try:
            found = answers.get(timeout=ANSWER)
        except Empty:
            raise ClusterError(
                f"{self._name}: a worker has not answered for {ANSWER:.0f} seconds; restart "
                f"those that hang, of: {', '.join(well)}"
            ) from None
        if isinstance(found, BaseException):
            raise found
        return found

    @staticmethod
    def _well(workers: dict[str, Any]) -> set[str]:
        """Return the workers that have not fallen silent."""
        latest = max((one["last_seen"] for one in workers.values()), default=0.0)
        silent = max(SILENT, len(workers) / 25)  # the more there are, the less often they report
        return {w for w, one in workers.items() if latest - one["last_seen"] < silent}

    def _workers(self) -> dict[str, Any]:
        """Return what the scheduler knows of each worker; some versions list five unless asked."""
        try:
            info = self._client.scheduler_info(n_workers=-1)
        except TypeError:  # of a version that always lists all
            info = self._client.scheduler_info()
        workers: dict[str, Any] = info["workers"]
        return workers

    def _count(self) -> int:
        """Return the workers' threads, asked for again every few seconds."""
        if time.monotonic() - self._counted > 5:
            self._threads = max(1, sum(self._client.nthreads().values()))
            self._counted = time.monotonic()
        return self._threads

    def _result(self, chunk: _Chunk) -> Done | None:
        """Wait for a chunk; None if that takes far too long and no second task has it."""
        from distributed import wait

        futures, since, alone = chunk.futures, time.monotonic(), 0.0
        while True:
            step = max(0.2, min(5.0, PATIENCE / 2))
            try:
                # Asking the client's loop takes a millisecond.
                finished = {future for future in futures if future.done()}
                if not finished:
                    with self._client.as_current():
                        finished = wait(futures, timeout=step, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                now = time.monotonic()
                if not self._workers():
                    alone = alone or now
                    if now - alone > ALONE:
                        raise ClusterError(
                            f"{self._name}: no worker for {ALONE:.0f} seconds; start some with: "
                            f"dask worker {self._name}"
                        ) from None
                    continue
                alone = 0.0
                if len(futures) == 1 and now - since > self._patience:
                    return None
                continue
            found = next(future for future in futures if future in finished)
            try:
                done = self._fetch(found, chunk)
            except BaseException as error:
                if isinstance(error, TimeoutError) and found.status == "finished":
                    futures.remove(found)  # its worker hangs, with the result
                    if chunk.lost >= LOST:
                        chunk.cancel()
                        raise self._unreached(chunk) from None
                    if not futures:
                        return None
                    continue
                chunk.cancel()
                raise self._explained(error, chunk) from None
            futures.remove(found)  # a result that is here is released without asking
            chunk.cancel()
            return done

    def _fetch(self, future: Future[Any], chunk: _Chunk) -> Done:
        """Return a result, straight from its worker or, where that fails, through the scheduler.

        TimeoutError if it does not come; it counts as lost where its worker is well.
        """
        result: Done
        if not self._detour:
            try:
                result = future.result(timeout=self._patience)
                return result
            except TimeoutError:
                if future.status != "finished" or not self._is_held_well(future):
                    raise
                if not self._direct:  # that was through the scheduler
                    chunk.lost += 1
                    raise

        async def gather() -> list[Done]:
            found: list[Done] = await self._client.gather([future], direct=False, asynchronous=True)
            return found

        try:
            (result,) = self._client.sync(gather, callback_timeout=self._patience)
        except TimeoutError:
            chunk.lost += future.status == "finished" and self._is_held_well(future)
            raise
        if not self._detour:
            self._detour = True
            warnings.warn(
                f"{self._name}: a worker's port cannot be reached from here, so results come "
                "through the scheduler, which copies them once more; open the workers' ports",
                stacklevel=2,
            )
        return result

    def _is_held_well(self, future: Future[Any]) -> bool:
        """True if a worker that shows signs of life has the result."""
        holders = self._client.who_has([future]).get(future.key, ())
        return not self._well(self._workers()).isdisjoint(holders)

    def _unreached(self, chunk: _Chunk) -> ClusterError:
        return ClusterError(
            f"{self._name}: results of {_extent(chunk)} did not arrive {chunk.lost} times, neither "
            "from their workers nor through the scheduler; the driver, or at least the scheduler, "
            "must reach the workers' ports (set them by: dask worker --worker-port)"
        )

    @property
    def _patience(self) -> float:
        """Seconds after which the oldest chunk is late."""
        return max(PATIENCE, SLOW * self._slowest)

    def _late(self, waiting: Sequence[_Chunk]) -> tuple[list[_Chunk], list[str]]:
        """Return the chunks to be computed once more, and workers for it.

        The first one; if a worker has fallen silent, all that may wait for it.
        """
        workers = self._workers()
        well = self._well(workers)
        first = waiting[0]
        keys = {future.key for future in first.futures}
        own = {w for w, theirs in self._client.processing().items() if keys & set(theirs)}
        others = sorted(well - own or well)
        if len(well) == len(workers):
            return ([] if first.futures and set(others) == own else [first]), others
        kept = self._client.who_has()

        def stuck(chunk: _Chunk) -> bool:
            if len(chunk.futures) != 1:
                return False
            future = chunk.futures[0]
            return not future.done() or not well.intersection(kept.get(future.key, ()))

        return [chunk for chunk in waiting if chunk is first or stuck(chunk)], others

    def _explained(self, error: BaseException, chunk: _Chunk) -> BaseException:
        """Return an error of Dask as one that says what to do; others as they are."""
        from distributed import CancelledError, KilledWorker

        if isinstance(error, KilledWorker):
            return ClusterError(
                f"{self._name}: every worker that computed {_extent(chunk)} died, most likely "
                "because they ran out of memory; start workers with fewer threads or a higher "
                "--memory-limit"
            )
        if isinstance(error, CancelledError):
            return ClusterError(f"{self._name}: lost the scheduler; start it and run again")
        if isinstance(error, (ImportError, AttributeError, pickle.UnpicklingError)):
            self._check_workers()  # one that came later may be of another version
        return error

    def _wait_for_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=CONNECT)
        except TimeoutError:
            raise ClusterError(
                f"{self._name}: has no workers; start some with: dask worker {self._name}"
            ) from None

    def _check_scheduler(self) -> None:
        """Refuse a scheduler with another lrrspm, or with none: it unpickles what tasks are."""
        check_answer(self._expected, self._client.run_on_scheduler(question()), "the scheduler")

    def _check_workers(self) -> None:
        """Refuse workers with another lrrspm, and warn of those with another processor."""
        ours = makers()
        different: dict[str, str] = {}
        for address, theirs in self._ask(question()).items():
            check_answer(self._expected, theirs, f"worker {address}")
            for name, value in ours.items():
                if theirs.get(name) != value:
                    different[name] = f"{name} {theirs.get(name)!s:.60} on {address}"
        if different:
            warnings.warn(
                "workers differ from this machine, so the last bits of results may too: "
                + "; ".join(different.values()),
                stacklevel=2,
            )


def _extent(chunk: _Chunk) -> str:
    first = getattr(chunk.items[0], "image", chunk.items[0])
    return f"a chunk of {plural(len(chunk.items), 'image')} from {first!s:.300}"
