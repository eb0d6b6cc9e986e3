"""Says what a port's own `train` does otherwise, where each step alone is the script's."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from parity.diagnose import Evidence, find_causes
from parity.diagnose.agreement import CLOSE
from parity.diagnose.catalogue import build_cause
from parity.experiment.replay.free_run import FreeRuns
from parity.experiment.replay.port import ReplayedPort
from parity.judge.metrics import distance, norm, worst
from parity.judge.result import Cause, Check, FirstDifference
from parity.mapping.states import read_all, translated, write_states
from parity.mapping.trace_map import Join
from parity.trace import LEARNING_RATE, Trace
from parity.trace.arrays import Tensors

# What a step goes through before weights move. A program shows it, and is not judged by it: that its weights are right is
# what counts.
ON_THE_WAY = ("grad", "clip")


def causes_of_training(replayed: ReplayedPort, runs: FreeRuns, trained: Trace, first: FirstDifference) -> list[Cause]:
    """Returns what explains the first difference of a program's run, best first.

    Up to there the run is the script's, so that both make that step from the same state, as in lockstep.

    Args:
      replayed: the port of the program.
      runs: the free runs of both.
      trained: the program's run.
      first: its first difference.
    """
    evidence = Evidence(replayed.join, runs.reference, trained, runs.states, replayed.part.towers)
    if first.quantity == "ema":
        # By what the program's own averages were before, for a step that moves them wrongly leaves the next another start:
        # averages that move too early are the script's of the step before, as if they stood still.
        own = Trace(_own_states(replayed.join, runs.states, trained))
        return find_causes(_in_lockstep(first), replace(evidence, states=own))
    for difference in differences_of_a_step(first, evidence):
        causes = find_causes(difference, evidence)
        if causes:
            return causes
    return _of_another_rank(replayed, runs, trained, first) if first.quantity == "stat" else []


def differences_of_a_step(first: FirstDifference, evidence: Evidence) -> Iterator[FirstDifference]:
    """Yields what differs at the step of a first difference in the order of computing: rate, gradients, what they make."""
    step = first.check.step
    files = evidence.reference.step(step), evidence.candidate.step(step)
    if all(LEARNING_RATE in file for file in files):
        one, other = (np.asarray(file.read(LEARNING_RATE), np.float64) for file in files)
        if abs(other - one) > CLOSE * abs(one):
            check = Check("lockstep", step, LEARNING_RATE, "different")
            yield FirstDifference(check, "state", "learning_rate", "", worst(one, other))
    for quantity in ON_THE_WAY:
        for name, one, other in evidence.pairs(step, quantity):
            if norm(other - one) > CLOSE * norm(one):
                check = Check("lockstep", step, f"{quantity}/{name}", "different")
                yield FirstDifference(check, quantity, name, "", worst(one, other))
                break
    yield _in_lockstep(first)


def _in_lockstep(first: FirstDifference) -> FirstDifference:
    return replace(first, check=first.check._replace(run="lockstep"))


def _own_states(join: Join, states: Trace, trained: Trace) -> Path:
    """Leaves what a program's run left before each step, in the script's names; what it does not show is the script's."""

    def own(number: int, left: Tensors) -> Tensors:
        found = ((str(key), join.read(key, states_of[number])) for key, _ in join.ordered(left))
        return {**left, **{text: value for text, value in found if value is not None}}

    numbers = trained.step_numbers
    states_of = {
        number: trained.step(numbers[place - 1]) if place else trained.init() for place, number in enumerate(numbers)
    }
    before = ((number, own(number, read_all(states.step(number)))) for number in numbers)
    return write_states(Path(trained.directory).with_name("train-states"), before)


def _of_another_rank(replayed: ReplayedPort, runs: FreeRuns, trained: Trace, first: FirstDifference) -> list[Cause]:
    """Tries what rank 0's statistics are when it is given the shard of another rank."""
    step, towers = first.check.step, replayed.part.towers
    batch, state = replayed.batch(step), translated(replayed.join, read_all(runs.states.step(step)))
    for tower in range(1, towers):
        moved = {name: np.roll(value, -tower * (len(value) // towers), axis=0) for name, value in batch.items()}
        again = replayed.again(f"statistics-of-{tower}", [step], [moved], [state])
        if _same_statistics(replayed.join, runs.reference, again, trained, step):
            evidence = (
                f"given the shard of rank {tower}, rank 0 leaves the statistics that train() leaves at step {step}"
            )
            survivor, wanted = f"those of rank {tower}", "those of rank 0"
            return [build_cause("statistics_of_another_tower", evidence=evidence, survivor=survivor, wanted=wanted)]
    return []


def _same_statistics(join: Join, reference: Trace, one: Trace, other: Trace, step: int) -> bool:
    pairs = [
        (join.read(key, one.step(step)), join.read(key, other.step(step)))
        for key, _ in join.ordered(reference.step(step).names("stat"))
    ]
    return bool(pairs) and all(
        mine is not None and theirs is not None and distance(mine, theirs) <= CLOSE * norm(mine)
        for mine, theirs in pairs
    )
