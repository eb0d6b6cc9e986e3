"""Ranks as threads of one process: a ring to send round, and two collectives; what is sent is counted."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class NoProgress(RuntimeError):
    """Every rank waits for another one."""


class Stopped(RuntimeError):
    """Another rank has failed."""


class Rank(NamedTuple):
    """What a rank may do.

    Fields:
      rank: its number, from 0.
      size: how many ranks there are.
      send: sends an array to the next rank of the ring, and does not wait.
      recv: waits for an array of the rank before this one in the ring, and returns it.
      all_reduce: waits for all ranks; returns the sum of what they gave.
      broadcast: waits for all ranks; returns what rank 0 gave.
    """

    rank: int
    size: int
    send: Callable[[Any], None]
    recv: Callable[[], Any]
    all_reduce: Callable[[Any], Any]
    broadcast: Callable[[Any], Any]


class Results(NamedTuple):
    """What ranks returned, and the bytes that each has sent round the ring, both by rank."""

    values: list[Any]
    sent: list[int]


def on_ranks(function: Callable[[Rank], Any], size: int) -> Results:
    """Calls a function on `size` ranks.

    Raises:
      NoProgress: all of them wait.
      Exception: what the lowest rank that failed has raised.
    """
    ring = _Ring(size)
    threads = [threading.Thread(target=ring.be, args=(function, rank), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failures = [each for each in ring.failures if each is not None]
    if failures:
        raise next((each for each in failures if not isinstance(each, Stopped)), failures[0])
    return Results(ring.values, ring.sent)


class _Ring:
    def __init__(self, size: int) -> None:
        self.size = size
        self.values: list[Any] = [None] * size
        self.sent = [0] * size
        self.failures: list[BaseException | None] = [None] * size
        self._change = threading.Condition()
        self._links: list[deque[Any]] = [deque() for _ in range(size)]  # what is on its way to each rank
        self._given: dict[tuple[str, int], dict[int, Any]] = {}  # of each collective, by its name and turn
        self._waiting: dict[int, tuple[str, Callable[[], bool]]] = {}
        self._ended = 0

    def be(self, function: Callable[[Rank], Any], number: int) -> None:
        """Runs the function as one rank."""
        turns = dict.fromkeys(("all_reduce", "broadcast"), 0)

        def collect(name: str, array: Any) -> list[Any]:
            turns[name] += 1
            return self._collect(number, name, turns[name], array)

        rank = Rank(
            number,
            self.size,
            lambda array: self._send(number, array),
            lambda: self._recv(number),
            lambda array: np.sum(collect("all_reduce", array), axis=0),
            lambda array: collect("broadcast", array)[0],
        )
        try:
            with np.errstate(all="ignore"):
                self.values[number] = function(rank)
        except BaseException as error:
            self.failures[number] = error
        with self._change:
            self._ended += 1
            self._change.notify_all()

    def _send(self, number: int, array: Any) -> None:
        right = (number + 1) % self.size
        with self._change:
            self._links[right].append(np.array(array))  # a copy: the sender may go on writing
            self.sent[number] += np.asarray(array).nbytes
            self._change.notify_all()

    def _recv(self, number: int) -> Any:
        self._wait(number, "recv", lambda: bool(self._links[number]))
        return self._links[number].popleft()

    def _collect(self, number: int, name: str, turn: int, array: Any) -> list[Any]:
        with self._change:
            given = self._given.setdefault((name, turn), {})
            given[number] = np.array(array)
            self._change.notify_all()
        self._wait(number, name, lambda: len(given) == self.size)
        return [np.array(given[rank]) for rank in range(self.size)]

    def _wait(self, number: int, call: str, ready: Callable[[], bool]) -> None:
        with self._change:
            self._waiting[number] = call, ready
            self._change.notify_all()
            while not ready():
                if any(self.failures):
                    raise Stopped("another rank has failed")
                if self._is_stuck():
                    calls = ", ".join(f"rank {rank} in {self._waiting[rank][0]}" for rank in sorted(self._waiting))
                    raise NoProgress(f"all wait, {calls}")
                self._change.wait()
            del self._waiting[number]

    def _is_stuck(self) -> bool:
        # Those that have ended send nothing more; of the others none computes, and nothing has come for any.
        waits = self._waiting.values()
        return len(waits) + self._ended == self.size and not any(ready() for _, ready in waits)
