"""Leaves the float64 shadow of a recorded PyTorch program: the program once more, launched on its own recording."""

import contextlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from parity.experiment.replay.free_run import start_of
from parity.experiment.replay.port import ReplayedPort
from parity.experiment.replay.program import port_of, training_of
from parity.experiment.replay.script import Part, launched_part
from parity.experiment.runs import REPLICAS
from parity.experiment.sides.launched import LaunchedProgram
from parity.experiment.spec import FORWARD, Progress, silent
from parity.judge.metrics import distance
from parity.mapping.states import read_all, write_states
from parity.trace import (
    SHADOW,
    SHADOW_FORWARD,
    SHADOW_FREE,
    SHADOW_SPREAD,
    Perturbation,
    Trace,
    TraceWriter,
    perturb,
    quantity_of,
    select,
)
from parity.trace.arrays import Array, Tensors
from parity.worker.failures import SideFailed
from parity.worker.reaper import temporary_folder

WITHOUT_SECTION = "main"  # as `tf_towers.shadow` has it
NOT_MEASURED = frozenset(["state", "feed"])


def make_shadow(recorded: Path, command: Sequence[str], tick: Progress = silent, silence: float = 300.0) -> Trace:
    """Runs a recorded program in float64 from each recorded state, freely, and freely from one ulp away.

    Args:
      recorded: the trace of a program of PyTorch; its shadow goes into it.
      command: which it was recorded with.
      tick: told how far it is: what, done, total.
      silence: seconds without a step or a line of output after which a launch is ended.

    Raises:
      ReplayError: the recording has several optimizers, or gradients that are not combined.
      SideFailed: the program does not run, or does not take what it did itself.

    Counterpart: tf_towers.shadow
    """
    part = launched_part(Trace(recorded))
    with temporary_folder(prefix="parity-shadow-") as name:
        out = Path(name)
        with contextlib.closing(LaunchedProgram(command, training_of(part), out, silence)) as program:
            replayed = ReplayedPort(part, port_of(part, silence), program, {}, {}, out, tick)
            lockstep = replayed.run("float64")
            start = start_of(part.before(part.steps[0]), part.begins)
            free = replayed.run_freely(start, None)
            # By it layers that differ are found: where it cannot be had that costs causes, never a verdict.
            with contextlib.suppress(SideFailed):
                replayed.forward(part.steps[0], "0")
            replicas = [_replica(replayed, part, start, seed) for seed in range(1, REPLICAS + 1)]
        folder = recorded / SHADOW
        shadow = _write(folder, part, lockstep)
        kept = folder / SHADOW_FORWARD / (part.name or WITHOUT_SECTION) / str(part.steps[0])
        shutil.rmtree(kept, ignore_errors=True)
        if (out / FORWARD).is_dir():
            shutil.copytree(out / FORWARD, kept)
        _write(folder / SHADOW_FREE, part, free)
        _write_spread(
            folder / SHADOW_SPREAD, part, free, [trace for trace, _ in replicas], [ulp for _, ulp in replicas]
        )
    return shadow


def _replica(replayed: ReplayedPort, part: Part, start: Tensors, seed: int) -> tuple[Trace, float]:
    """A free run whose weights, and the inputs of each step, are one ulp of float64 away; how far the weights are."""
    moved = perturb(start, [Perturbation("ulp", "var", seed)], 0, "float64")
    # seed + REPLICAS * step with seeds from 1 to REPLICAS: no two replicas draw the same in any step.
    of_inputs = [Perturbation("ulp", "feed", seed, seed_per_step=REPLICAS)]
    batches = ((number, perturb(part.batch(number), of_inputs, number, "float64")) for number in part.steps)
    name = f"replica-{seed}"
    feeds = write_states(Path(replayed.folder) / f"{name}-feeds", batches)
    # The Euclidean distance over all weights together; inputs are not in it.
    ulp = np.sqrt(sum(distance(start[text], moved[text]) ** 2 for text in select(start, "var")))
    return replayed.run_freely(moved, None, name, feeds), float(ulp)


def _write(out: Path, part: Part, run: Trace) -> Trace:
    facts = {**part.facts, "precision": "float64", "ranks_agree": run.facts.get("ranks_agree", True)}
    writer = TraceWriter(out, run.producer, facts, {n: {**d, "dtype": "float64"} for n, d in part.variables.items()})
    writer.init(read_all(run.init()))
    for number in run.step_numbers:
        writer.step(number, read_all(run.step(number)))
    writer.close()
    return Trace(out)


def _write_spread(out: Path, part: Part, free: Trace, replicas: Sequence[Trace], ulps: Sequence[float]) -> None:
    writer = TraceWriter(out, free.producer, {**part.facts, "precision": "float64"})
    writer.init({})
    for number in part.steps:
        files = [trace.step(number) for trace in (free, *replicas)]
        # [] each: how far the replicas get from the free run at most, by tensor and step.
        names = [name for name in files[0].names() if quantity_of(name) not in NOT_MEASURED]
        writer.step(number, {name: _farthest(file.read(name) for file in files if name in file) for name in names})
    # The smallest, so that the amplification is not underrated.
    writer.close(ulp=min(ulps))


def _farthest(values: Iterable[Array]) -> Array:
    first, *others = values
    return np.array(max((distance(first, other) for other in others), default=0.0))
