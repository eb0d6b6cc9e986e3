"""Runs the candidate with each tower's shard first: what it takes to work out the orders that statistics may race in."""

from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from parity.case import Case
from parity.mapping.states import read_all, write_states
from parity.run.asked import Asked
from parity.run.races import Races, with_statistics_moved, with_tower_first
from parity.run.recorded import Playing
from parity.trace import Trace


def run_orders(playing: Playing, states: Path, case: Case, lockstep: "Mapping[str, Future[Trace]]") -> Races:
    """Runs all steps with each tower first in each precision, and once from statistics moved, where statistics race.

    Args:
      playing: the sides.
      states: trace of the states before each step, in the candidate's names.
      case: what is run.
      lockstep: the candidate's lockstep runs by precision, in which the first tower is first.
    """
    ema = case.optimizer.ema if case.optimizer else None
    if not any(text.startswith("stat/") for text in playing.racing):
        return Races(playing.racing, ema)
    feeds, start, steps, towers = playing.feeds.torch, playing.start.torch, playing.steps, case.towers
    alone: dict[str, list[Future[Trace]]] = {precision: [run] for precision, run in lockstep.items()}
    batches, before = Trace(feeds), Trace(states)
    for tower in range(1, towers):
        name = f"tower-{tower}-first"
        changed = ((n, with_tower_first(read_all(batches.step(n)), tower, towers)) for n in steps)
        swapped = write_states(playing.out / "feeds" / f"torch-{name}", changed)
        for precision, runs in alone.items():
            asked = Asked(f"{name}-{precision}", precision, swapped, start, states, ("stat",), steps)
            runs.append(playing.torch.run(asked))
    shifted = ((n, with_statistics_moved(read_all(before.step(n)))) for n in steps)
    moved = write_states(playing.out / "states" / "torch-moved", shifted)
    last = playing.torch.run(Asked("statistics-moved", "float64", feeds, start, moved, ("stat",), steps))
    traces = {precision: [run.result() for run in runs] for precision, runs in alone.items()}
    return Races(playing.racing, ema, traces, last.result())
