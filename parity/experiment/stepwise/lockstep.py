"""The pass in lockstep: each step on both sides in both precisions, judged, measured, removed."""

import time
from typing import NamedTuple

from parity.experiment.runs import EVERYTHING, PERTURBED_RUNS, REPEATED, REPLICAS
from parity.experiment.spec import RunSpec
from parity.experiment.stepwise.on_demand import remove
from parity.experiment.stepwise.stage import Stage, StatesNow, digests
from parity.judge.judge import MeasuredPair
from parity.judge.levels.float32 import StepErrors, measure_errors, measure_float32
from parity.judge.levels.function import Lockstep, Lost, judge_init, judge_lockstep
from parity.judge.output_layouts import take_layouts
from parity.judge.result import Check
from parity.trace import Trace


class InLockstep(NamedTuple):
    """What the pass has measured.

    Fields:
      checks: of level 1, in execution order.
      float32: of level 2, before any draw is known.
      errors: what float32 loses, at the steps that are drawn.
      once: by side and step a hash of each tensor of its float32 run.
      moved: gradients that were not zero in some step.
      layouts: what the report says of layouts that were guessed.
    """

    checks: list[Check]
    float32: list[Check | MeasuredPair]
    errors: dict[int, StepErrors]
    once: dict[str, dict[int, dict[str, bytes]]]
    moved: set[str]
    layouts: list[str]


def specs_of(stage: Stage) -> dict[str, RunSpec]:
    """Returns the whole runs that the pass makes in parts, by their names in `Stage.runs`."""
    playing, now = stage.playing, StatesNow(stage).paths
    quantities = EVERYTHING + playing.inference
    tf = RunSpec("float32", "float32", playing.feeds.tf, playing.start.tf, None, quantities, playing.steps)
    torch = tf._replace(feeds=playing.feeds.torch, start=playing.start.torch, follow=now.torch)
    return {
        "reference32": tf,
        "reference64": tf._replace(name="float64", precision="float64", follow=now.tf),
        "candidate32": torch,
        "candidate64": torch._replace(name="float64", precision="float64"),
    }


def judge_in_lockstep(stage: Stage) -> InLockstep:
    """Makes, judges and removes one step after the other; what is left of a run is known to `Stage.runs`."""
    playing, specs, now = stage.playing, specs_of(stage), StatesNow(stage)
    found = InLockstep([], [], {}, {"reference": {}, "candidate": {}}, set(), [])
    stage.write_start()
    playing.tf.prepare("float64", playing.inputs).result()
    previous: Trace | None = None
    begun = time.monotonic()
    for done, step in enumerate(playing.steps):
        stage.tick("lockstep, step by step", done, len(playing.steps))
        rough = playing.tf.run(part_of(stage, specs["reference32"], step)).result()
        stage.runs["reference32"].take(rough)
        if not done:
            found.checks.extend(_judge_start(stage, specs))
        ends = stage.is_last(step) and bool(playing.inference)
        now.write(step, previous, rough.step(step), rough if ends else None)
        if previous is not None:
            remove(previous)
        traces = _make(stage, specs, step, rough, now)
        _measure(stage, traces, step, found)
        for trace in (traces.reference64, traces.candidate64, traces.candidate32):
            remove(trace)
        previous = rough
        if not done:
            left = remaining_seconds(stage, time.monotonic() - begun)
            stage.tick(f"about {left:.0f} s to go, predicted from the first step", 0, 1)
    stage.tick("lockstep, step by step", len(playing.steps), len(playing.steps))
    now.remove()
    if previous is not None:
        remove(previous)
    return found


def remaining_seconds(stage: Stage, first: float) -> float:
    """Returns how long the rest will take, as a prediction from the first step.

    Args:
      stage: of the recording.
      first: seconds that the first step in lockstep took.
    """
    steps = len(stage.playing.steps)
    # In parts of a lockstep step, which makes one in float32 and one in float64: a free step and its replicas are 4 in
    # float64, a repeated one and its draws 9 in float32.
    free = 0.0 if stage.quick else (2 / 3) * (1 + REPLICAS) * steps
    again = 0.0 if stage.quick else (REPEATED + 2 * PERTURBED_RUNS * len(stage.draw_steps)) / 3
    return first * (steps - 1 + free + again)


def part_of(stage: Stage, whole: RunSpec, step: int, resumed: bool | None = None) -> RunSpec:
    """Returns the run of one step of a whole run; all but the first go on where the one before ended."""
    goes_on = step != stage.playing.steps[0] if resumed is None else resumed
    # Inference is made behind the last step of a run, which is not that of each part.
    quantities = tuple(each for each in whole.quantities if each != "eval" or stage.is_last(step))
    return whole._replace(
        name=f"{whole.name}-{step}", steps=[step], quantities=quantities, resumed=goes_on, initial=False
    )


def _judge_start(stage: Stage, specs: dict[str, RunSpec]) -> list[Check]:
    # By themselves, for what was loaded is as large as half of a step, and nothing but this reads it: the runs go on from
    # there, and what they started from goes.
    playing = stage.playing
    reference64, candidate64, candidate32 = (
        specs[name]._replace(name=f"{specs[name].name}-start", steps=[], follow=None)
        for name in ("reference64", "candidate64", "candidate32")
    )
    answers = [playing.tf.run(reference64), playing.torch.run(candidate64)]
    answers.append(playing.torch.run(candidate32._replace(initial=False)))
    reference, candidate, single = (each.result() for each in answers)
    checks = judge_init(stage.join, reference.init(), candidate.init())
    for trace in (reference, candidate, single):
        remove(trace)
    stage.drop_start()
    return checks


def _make(stage: Stage, specs: dict[str, RunSpec], step: int, rough: Trace, now: StatesNow) -> Lockstep:
    playing = stage.playing
    exact = playing.tf.run(part_of(stage, specs["reference64"], step, resumed=True))
    candidate = playing.torch.run(part_of(stage, specs["candidate64"], step, resumed=True))
    reference64 = exact.result()
    stage.runs["reference64"].take(reference64)
    now.trim(step)
    single = playing.torch.run(part_of(stage, specs["candidate32"], step, resumed=True))
    candidate64, candidate32 = candidate.result(), single.result()
    stage.runs["candidate64"].take(candidate64)
    stage.runs["candidate32"].take(candidate32)
    return Lockstep(rough, reference64, candidate32, candidate64, Trace(now.paths.tf))


def _measure(stage: Stage, traces: Lockstep, step: int, found: InLockstep) -> None:
    join = stage.join
    if step == stage.playing.steps[0]:
        # The join reads outputs in these layouts from here on.
        found.layouts.extend(take_layouts(join, traces.reference64, traces.candidate64))
    lost: Lost = {}
    found.checks.extend(judge_lockstep(join, traces, [step], lost))
    if stage.float32:
        found.float32.extend(measure_float32(join, traces, step, lost))
    if step in stage.draw_steps:
        found.errors[step] = measure_errors(join, traces, step)
    for side, trace in (("reference", traces.reference32), ("candidate", traces.candidate32)):
        if step in stage.playing.steps[: 0 if stage.quick else REPEATED]:
            found.once[side][step] = digests(trace.step(step))
    exact = traces.reference64.step(step)
    # Until every gradient has been non-zero once: most are in the first step, which spares reading the others.
    found.moved.update(text for text in exact.names("grad") if text not in found.moved and exact.read(text).any())
