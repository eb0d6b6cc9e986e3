"""Records level 3: float32 runs that nobody resets, of both sides, each with its own rounding."""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import zip_longest
from pathlib import Path

import numpy as np

from parity.judge.levels.trajectory import Spot, Trajectories, apart, spots_of
from parity.judge.metrics import Array
from parity.mapping.states import Tensors, read_all, translated, translated_batch, write_init, write_states
from parity.mapping.trace_map import Join
from parity.run.asked import Asked
from parity.run.perturb import one_ulp, reordered
from parity.run.quantities import FEEDS, WEIGHTS
from parity.run.recorded import Playing
from parity.trace import Trace

ENVELOPE = 20
HELD_OUT = 20
OF_THE_CANDIDATE = 8
FOLLOWED = ("loss", "grad", "slot", "stat", "var", "ema", "metric")
IN_FLIGHT = 2

Ask = Callable[[Asked], "Future[Trace]"]


def record_trajectories(playing: Playing, join: Join, reference: Trace) -> tuple[Trace, Trajectories]:
    """Runs the candidate freely in float32, and both sides again and again with other rounding.

    Each perturbed run starts from weights moved by an ulp of float32, is fed inputs moved by an ulp, and has the examples
    of every shard in another order in every step. A run is measured and removed as soon as it is there.

    Args:
      playing: the sides, and what they are fed.
      join: names and layouts.
      reference: its unperturbed float32 run.

    Returns:
      The candidate's unperturbed run, and how far all of them are apart.

    Raises:
      SideFailed: a side could not do its part.
    """
    candidate = playing.torch.run(_asked(playing, "float32-free", playing.feeds.torch, playing.start.torch)).result()
    spots = spots_of(join, reference, candidate, playing.racing)
    draws = range(ENVELOPE + HELD_OUT)
    references = _in_turn(playing.tf.run, (_of_reference(playing, draw) for draw in draws))
    candidates = _in_turn(playing.torch.run, (_of_candidate(playing, join, draw) for draw in draws[:OF_THE_CANDIDATE]))
    found: list[Array] = []
    others = [apart(join, spots, reference, candidate, (False, True))]
    wandering: list[Array] = []
    for one, other in zip_longest(references, candidates):
        found.append(apart(join, spots, reference, one, (False, False)))
        _remove(one)
        if other is not None:
            others.append(apart(join, spots, reference, other, (False, True)))
            wandering.append(apart(join, spots, candidate, other, (True, True)))
            _remove(other)
    envelope, held_out = np.array(found[:ENVELOPE]), np.array(found[ENVELOPE:])
    return candidate, Trajectories(spots, envelope, held_out, np.array(others), np.array(wandering))


def follow_again(playing: Playing, join: Join, reference: Trace, spots: list[Spot]) -> tuple[Array, Array]:
    """Runs another candidate alike; returns its distances from the reference and its own wandering."""
    candidate = playing.torch.run(_asked(playing, "float32-free", playing.feeds.torch, playing.start.torch)).result()
    others, wandering = [apart(join, spots, reference, candidate, (False, True))], []
    asked = (_of_candidate(playing, join, draw) for draw in range(OF_THE_CANDIDATE))
    for other in _in_turn(playing.torch.run, asked):
        others.append(apart(join, spots, reference, other, (False, True)))
        wandering.append(apart(join, spots, candidate, other, (True, True)))
        _remove(other)
    return np.array(others), np.array(wandering)


def _in_turn(ask: Ask, asked: Iterator[Asked]) -> Iterator[Trace]:
    # One run more than is looked at is under way, so that neither the side nor this process waits for the other.
    waiting: deque[tuple[Asked, Future[Trace]]] = deque()
    for each in asked:
        waiting.append((each, ask(each)))
        if len(waiting) >= IN_FLIGHT:
            yield _taken(waiting)
    while waiting:
        yield _taken(waiting)


def _taken(waiting: "deque[tuple[Asked, Future[Trace]]]") -> Trace:
    asked, future = waiting.popleft()
    trace = future.result()
    for folder in (asked.feeds, asked.start):
        shutil.rmtree(folder, ignore_errors=True)
    return trace


def _of_reference(playing: Playing, draw: int) -> Asked:
    name = f"drawn-{draw}"
    start, feeds = _drawn(playing, draw)
    return _asked(
        playing,
        name,
        write_states(playing.out / "feeds" / f"tf-{name}", feeds),
        write_init(playing.out / "start" / f"tf-{name}", start),
    )


def _of_candidate(playing: Playing, join: Join, draw: int) -> Asked:
    name = f"drawn-{draw}"
    start, feeds = _drawn(playing, draw)
    batches = ((step, translated_batch(join, batch)) for step, batch in feeds)
    return _asked(
        playing,
        name,
        write_states(playing.out / "feeds" / f"torch-{name}", batches),
        write_init(playing.out / "start" / f"torch-{name}", translated(join, start)),
    )


def _drawn(playing: Playing, draw: int) -> tuple[Tensors, Iterator[tuple[int, Tensors]]]:
    start, feeds = Trace(playing.start.tf), Trace(playing.feeds.tf)

    def batches() -> Iterator[tuple[int, Tensors]]:
        for step in playing.steps:
            seed = 7919 * (draw + 1) + 104_729 * step
            batch = reordered(read_all(feeds.step(step)), playing.shards, seed, playing.uneven)
            yield step, one_ulp(batch, seed + 1, FEEDS)

    return one_ulp(read_all(start.init()), 611_953 + draw, WEIGHTS), batches()


def _asked(playing: Playing, name: str, feeds: Path, start: Path) -> Asked:
    return Asked(name, "float32", feeds, start, None, FOLLOWED, playing.steps)


def _remove(trace: Trace) -> None:
    shutil.rmtree(trace.directory, ignore_errors=True)
