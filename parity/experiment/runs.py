"""The runs that every recording makes: lockstep, free-running, perturbed by rounding, mixed precision, other orders."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from parity.case import Case
from parity.experiment.perturbed import PerturbedTrace, run_candidate
from parity.experiment.recording import Setup, SidePaths
from parity.experiment.rejudge.races import SHIFT, Races
from parity.experiment.spec import REPETITION, Capability, RunSpec
from parity.judge.allowances import UNIT16
from parity.judge.levels.mixed import Halves
from parity.mapping.trace_map import Join
from parity.trace import QUANTITIES, Perturbation, Trace, quantity_of

# The quantities that a run records, by what it is for.


def _but(*left_out: str) -> tuple[str, ...]:
    return tuple(quantity for quantity in QUANTITIES if quantity not in left_out)


# Draws are fed, and inference is asked for where there is any.
EVERYTHING = _but("noise", "eval")
FREE_RUN_QUANTITIES = _but("noise", "eval", "feed", "act", "tower_grad", "tower_clip")
SPREAD = _but("noise", "eval", "state", "feed")


# The runs that every recording makes: in lockstep, free, from one ulp away, and the first steps once more.

REPLICAS = 3
# 3: DDP rebuilds its buckets after its first step, and may add in another order from then on.
REPEATED = 3


def rough_reference(playing: Setup) -> "Future[Trace]":
    """Starts the reference's float32 trajectory, from which all else is made."""
    quantities = EVERYTHING + playing.inference
    return playing.tf.run(
        RunSpec("float32", "float32", playing.feeds.tf, playing.start.tf, None, quantities, playing.steps)
    )


def free_candidate(playing: Setup) -> "Future[Trace]":
    """Starts the candidate's float64 run that nobody resets."""
    quantities = FREE_RUN_QUANTITIES + playing.inference
    return playing.torch.run(
        RunSpec("free", "float64", playing.feeds.torch, playing.start.torch, None, quantities, playing.steps)
    )


def candidate_in_lockstep(playing: Setup, states: Path) -> dict[str, "Future[Trace]"]:
    """Starts the candidate's lockstep runs; returns them by precision.

    Args:
      playing: the sides.
      states: trace of the states before each step, in the candidate's names.
    """
    feeds, start, quantities = playing.feeds.torch, playing.start.torch, EVERYTHING + playing.inference
    return {
        precision: playing.torch.run(RunSpec(precision, precision, feeds, start, states, quantities, playing.steps))
        for precision in ("float64", "float32")
    }


def reference_in_float64(playing: Setup, states: Path, quick: bool = False) -> dict[str, "Future[Trace]"]:
    """Starts the reference's float64 runs; returns them by name: "float64" in lockstep, "free", "replica-0", ...

    Args:
      playing: the sides.
      states: trace of the states before each step, in the reference's names.
      quick: whether it is the lockstep run alone.
    """
    # The graph is built once for each precision; all float64 runs of the reference come in one go.
    playing.tf.prepare("float64", playing.inputs).result()
    quantities = EVERYTHING + playing.inference
    lockstep = RunSpec("float64", "float64", playing.feeds.tf, playing.start.tf, states, quantities, playing.steps)
    # Without activations and towers' gradients: lockstep has judged them, and 4 free runs would hold them again.
    free = lockstep._replace(name="free", follow=None, quantities=FREE_RUN_QUANTITIES + playing.inference)
    asked = [lockstep] if quick else [lockstep, free, *replicas(playing, free)]
    return {each.name: playing.tf.run(each) for each in asked}


def replicas(playing: Setup, free: RunSpec) -> list[RunSpec]:
    """Returns runs like a free one of the reference that start one ulp of float64 away, on batches one ulp away."""
    # Replicas of a run beside a kink have its name in front.
    prefix = "" if free.name == "free" else f"{free.name}-"
    return [
        free._replace(name=f"{prefix}replica-{number}", perturbations=_ulp(number, 1000 * number))
        for number in range(REPLICAS)
    ]


def _ulp(of_weights: int, of_inputs: int) -> tuple[Perturbation, ...]:
    # Every step draws anew.
    return Perturbation("ulp", "var", of_weights, 1), Perturbation("ulp", "feed", of_inputs, 1)


def lockstep_repeated(playing: Setup, states: SidePaths, name: str = REPETITION) -> dict[str, "Future[Trace]"]:
    """Starts the first steps of the float32 lockstep once more; returns them by side, no reference's from a golden trace.

    Args:
      playing: the sides.
      states: the states before each step.
      name: of the runs.
    """
    repeats = {"candidate": candidate_repeated(playing, states, name)}
    if Capability.RERUN in playing.tf.capabilities:
        asked = _repetition(playing, playing.feeds.tf, playing.start.tf, states.tf, name)
        repeats["reference"] = playing.tf.run(asked)
    return repeats


def candidate_repeated(playing: Setup, states: SidePaths, name: str = REPETITION) -> "Future[Trace]":
    """Starts the first steps of the candidate's float32 lockstep once more."""
    return playing.torch.run(_repetition(playing, playing.feeds.torch, playing.start.torch, states.torch, name))


def _repetition(playing: Setup, feeds: Path, start: Path, states: Path, name: str) -> RunSpec:
    return RunSpec(name, "float32", feeds, start, states, EVERYTHING, playing.steps[:REPEATED])


# Runs steps under perturbation on both sides: how far single precision carries them apart by rounding alone.

PERTURBED_RUNS = 4


def run_draws(playing: Setup, join: Join, states: SidePaths) -> Iterator[tuple["Future[Trace]", "Future[Trace]"]]:
    """Starts three steps in float32 for each draw, some moved by one ulp, the others with the examples in another order.

    Args:
      playing: the sides.
      join: names and layouts of both sides.
      states: the states before each step.

    Yields:
      The reference's and the candidate's run of a draw.
    """
    for asked in draw_specs(playing, states.tf, drawn_steps(playing.steps)):
        yield playing.tf.run(asked), run_candidate(playing, join, asked, states.torch)


def drawn_steps(steps: Sequence[int]) -> list[int]:
    """Returns the steps that are made under perturbation."""
    # First, middle, last: rounding depends on the state, and 8 runs of all steps would cost more than all others.
    return sorted({0, len(steps) // 2, len(steps) - 1})


def draw_specs(playing: Setup, states: Path, steps: Sequence[int]) -> list[RunSpec]:
    """Returns the reference's draws.

    Args:
      playing: the sides.
      states: trace of the states before each step, in the reference's names.
      steps: to make.
    """
    feeds, start = playing.feeds.tf, playing.start.tf
    specs = []
    for draw in range(2 * PERTURBED_RUNS):
        # 4 of each kind, W and S: other weights and inputs, other orders of the sums.
        name = f"ulp-{draw}" if draw < PERTURBED_RUNS else f"order-{draw - PERTURBED_RUNS}"
        # Seeds of different primes, so that no two draws move anything alike.
        drawn = _ulp(7919 * draw, 7907 * draw) if draw < PERTURBED_RUNS else (another_order(playing, 7901 * draw),)
        specs.append(RunSpec(name, "float32", feeds, start, states, SPREAD, steps, True, perturbations=drawn))
    return specs


def another_order(playing: Setup, seed: int, seed_per_step: int = 1) -> Perturbation:
    """Returns what puts the examples of each tower's shard, or of each micro-batch of it, in another order in each step."""
    return Perturbation("sample_order", "feed", seed, seed_per_step, shards=playing.shards, uneven=playing.uneven)


# Runs the candidate in half precision beside its own float32, and under perturbation by half a unit of it.

NOISY_RUNS = 4


def record_halves(playing: Setup, states: SidePaths, dtype: str, opt_level: str) -> Halves:
    """Runs the candidate at its level, from the states of the other levels and freely, and the draws beside it.

    Args:
      playing: the sides, which have recorded the case and still run.
      states: the states before each step.
      dtype: "float16" or "bfloat16".
      opt_level: "O1", "O2" or "O3".

    Raises:
      SideFailed: the candidate could not run at this level.
    """
    # A skipped step is not counted: without the states' counters every step behind it would have another rate.
    lockstep = _asked(playing, states, "mixed", EVERYTHING)._replace(mixed=True, recorded_counters=True)
    mixed = playing.torch.run(lockstep).result()
    # In lockstep each step begins anew: the loss scale's own course shows only here.
    freely = _asked(playing, states, "mixed-free", FREE_RUN_QUANTITIES)._replace(mixed=True, follow=None)
    free = playing.torch.run(freely).result()
    full = playing.torch.run(lockstep._replace(name="full", mixed=False)).result()
    unit = UNIT16[dtype]
    draws = [_draw(playing, states, number, unit) for number in range(NOISY_RUNS)]
    return Halves(full, mixed, free, draws, Trace(states.torch), dtype, opt_level)


def with_more_draws(playing: Setup, states: SidePaths, halves: Halves, steps: Sequence[int], count: int) -> Halves:
    """Returns what `record_halves` recorded with so many more draws, of some steps."""
    first, unit = len(halves.draws), UNIT16[halves.dtype]
    draws = [_draw(playing, states, number, unit, steps) for number in range(first, first + count)]
    return halves._replace(draws=[*halves.draws, *draws])


def _asked(playing: Setup, states: SidePaths, name: str, quantities: Sequence[str]) -> RunSpec:
    feeds, start = playing.feeds.torch, playing.start.torch
    return RunSpec(name, "float32", feeds, start, states.torch, tuple(quantities), playing.steps)


def _draw(
    playing: Setup, states: SidePaths, number: int, unit: float, steps: Sequence[int] = ()
) -> tuple[Trace, Trace]:
    """Runs steps, all by default, in float32 as if a type of roundoff `unit` had rounded weights, batches and products.

    Returns:
      The trace, and the states before its steps.
    """
    # By the narrower type's u, up or down at random: what storing in it does to weights and batches.
    moved = (
        Perturbation("roundoff", "var", 31 * number, 1009, unit),
        Perturbation("roundoff", "feed", 37 * number, 1013, unit),
    )
    asked = _asked(playing, states, f"half-{number}", EVERYTHING)._replace(perturbations=moved)
    asked = asked._replace(recorded_counters=True, noise=(unit, number), steps=steps or asked.steps)
    run = playing.torch.run(asked).result()
    return run, PerturbedTrace(states.torch, moved, asked.precision)


# Runs the candidate with each tower's shard first: what it takes to work out the orders that statistics may race
# in.


def run_orders(playing: Setup, states: Path, case: Case, lockstep: "Mapping[str, Future[Trace]]") -> Races:
    """Runs all steps with each tower first in each precision, and once from statistics moved, where statistics race.

    Args:
      playing: the sides.
      states: trace of the states before each step, in the candidate's names.
      case: what is run.
      lockstep: the candidate's lockstep runs by precision, in which the first tower is first.
    """
    ema = case.optimizer.ema if case.optimizer else None
    # Averages are worked out from both weights of a side: no run is needed for them.
    if not any(quantity_of(text) == "stat" for text in playing.racing):
        return Races(playing.racing, ema)
    feeds, start, steps, towers = playing.feeds.torch, playing.start.torch, playing.steps, case.towers
    alone: dict[str, list[Future[Trace]]] = {precision: [run] for precision, run in lockstep.items()}
    # What a tower alone makes of a statistic: that of the rank whose shard comes first survives in the port.
    for tower in range(1, towers):
        first = (Perturbation("tower_first", "feed", tower, shards=towers),)
        for precision, runs in alone.items():
            asked = RunSpec(f"tower-{tower}-first-{precision}", precision, feeds, start, states, ("stat",), steps)
            runs.append(playing.torch.run(asked._replace(perturbations=first)))
    # How much of a statistic an update keeps: from another start, by what comes out moved.
    shifted = RunSpec("statistics-moved", "float64", feeds, start, states, ("stat",), steps)
    last = playing.torch.run(shifted._replace(perturbations=(Perturbation("shift", "stat", unit=SHIFT),)))
    traces = {precision: [run.result() for run in runs] for precision, runs in alone.items()}
    return Races(playing.racing, ema, traces, last.result())
