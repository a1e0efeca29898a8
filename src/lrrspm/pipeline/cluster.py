"""Cluster: chunks computed by the workers of a Dask scheduler, with the bits of one machine."""

from __future__ import annotations

import math
import pickle
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar

from .._support.files import absolute_paths
from .._support.text import plural
from .members import Members
from .versions import ClusterError, VersionError
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

ALONE = 120.0
"""Seconds to wait for a worker while there is none."""

CONNECT = 10.0
"""Seconds to wait for an answer of the scheduler."""

RECOUNT = 5.0
"""Seconds after which the workers are counted again, and new ones asked what they are."""

LOST = 2
"""Results of one chunk that workers have, and that never arrive, before the run ends."""


# What a worker may raise that looks for something in another lrrspm than the run's.
_OF_OTHER_VERSIONS = (ImportError, AttributeError, TypeError, pickle.UnpicklingError)


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
        self._members = Members(client, self._name)
        self._threads, self._counted = 0, -math.inf
        self._slowest = 0.0
        self._direct = bool(getattr(client, "direct_to_workers", False))
        self._detour = False  # by way of the scheduler
        self._members.check_scheduler()
        self._wait_for_workers()
        self._members.check_workers(self._members.well())

    def submit(self, function: Callable[..., R], /, *args: Any, **named: Any) -> Any:
        """Compute something else on a worker; returns a future of Dask."""
        return self._client.submit(function, *args, **named, pure=False)

    def everywhere(self, function: Callable[..., R], *args: Any) -> list[R]:
        """Call a function on every worker that shows signs of life."""
        return list(self._members.ask(self._members.well(), function, *args).values())

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
            return self._submit(
                run_chunk, self._members.expected, function, common, chunk, workers=where
            )

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

    def _count(self) -> int:
        """Return the workers' threads, asked for again every few seconds."""
        if time.monotonic() - self._counted > RECOUNT:
            threads = self._client.nthreads()
            self._threads = max(1, sum(threads.values()))
            self._members.check_new(set(threads))
            self._counted = time.monotonic()
        return self._threads

    def _result(self, chunk: _Chunk) -> Done | None:
        """Wait for a chunk; None if that takes far too long and no second task has it."""
        from distributed import CancelledError, wait

        futures, since, alone = chunk.futures, time.monotonic(), 0.0
        while True:
            step = max(0.2, min(5.0, PATIENCE / 2))
            try:
                # Asking the client's loop takes a millisecond.
                finished = {future for future in futures if future.done()}
                if not finished:
                    with self._client.as_current():
                        finished = wait(futures, timeout=step, return_when="FIRST_COMPLETED").done
            except CancelledError as error:
                raise self._explained(error, chunk) from None
            except TimeoutError:
                now = time.monotonic()
                if not self._members.all():
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
                if isinstance(error, TimeoutError) and found.status != "error":
                    if found.status == "finished":  # its worker hangs, with the result
                        futures.remove(found)
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
            begin = time.monotonic()
            try:
                result = future.result(timeout=self._patience)
            except TimeoutError:
                # Not by the future's status: Dask resets it where both ways fail.
                if future.status == "error" or not self._is_held_well(future):
                    raise
                if not self._direct:  # that was through the scheduler
                    chunk.lost += 1
                    raise
            else:
                # Dask takes the other way itself where it cannot connect, each time anew.
                late = time.monotonic() - begin > (self._client.rpc.timeout or 0.0) / 2
                if self._direct and late and not self._reaches(future):
                    self._take_detour()
                return result

        async def gather() -> list[Done]:
            found: list[Done] = await self._client.gather([future], direct=False, asynchronous=True)
            return found

        try:
            (result,) = self._client.sync(gather, callback_timeout=self._patience)
        except TimeoutError:
            chunk.lost += future.status != "error" and self._is_held_well(future)
            raise
        if not self._detour:
            self._take_detour()
        return result

    def _take_detour(self) -> None:
        """Fetch results through the scheduler from now on."""
        self._detour = True
        warnings.warn(
            f"{self._name}: a worker's port cannot be reached from here, so results come "
            "through the scheduler, which copies them once more; open the workers' ports",
            stacklevel=3,
        )

    def _holders(self, future: Future[Any]) -> Sequence[str]:
        """Return the workers that have a result."""
        found: Sequence[str] = self._client.who_has([future]).get(future.key, ())
        return found

    def _is_held_well(self, future: Future[Any]) -> bool:
        """True if a worker that shows signs of life has the result."""
        return not self._members.well().isdisjoint(self._holders(future))

    def _reaches(self, future: Future[Any]) -> bool:
        """True if the workers that have a result can be connected to: it was only slow."""
        holders, pool = self._holders(future), self._client.rpc

        async def connect() -> None:
            for address in holders:
                pool.reuse(address, await pool.connect(address))

        try:
            self._client.sync(connect, callback_timeout=CONNECT)
        except (OSError, TimeoutError):
            return False
        return True

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
        workers = self._members.all()
        well = self._members.well(workers)
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

        if isinstance(error, CancelledError):
            return ClusterError(
                f"{self._name}: lost the scheduler; start it and workers, and run the same command"
            )
        if isinstance(error, (KilledWorker, *_OF_OTHER_VERSIONS)):
            try:
                self._members.check_workers(self._members.well())
            except VersionError as other:
                return other
            except OSError:  # the error at hand says more
                pass
        remedy = "start workers with fewer threads or a higher --memory-limit"
        if isinstance(error, MemoryError):
            return ClusterError(
                f"{self._name}: a worker ran out of memory at {_extent(chunk)}; {remedy}"
            )
        if isinstance(error, KilledWorker):
            return ClusterError(
                f"{self._name}: every worker that computed {_extent(chunk)} died, most likely "
                f"because they ran out of memory; {remedy}"
            )
        return error

    def _wait_for_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=CONNECT)
        except TimeoutError:
            raise ClusterError(
                f"{self._name}: has no workers; start some with: dask worker {self._name}"
            ) from None


def _extent(chunk: _Chunk) -> str:
    first = getattr(chunk.items[0], "image", chunk.items[0])
    return f"a chunk of {plural(len(chunk.items), 'image')} from {first!s:.300}"
