"""The pass of repeated and perturbed steps: each side once more, and draws as distances from that."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from parity.experiment.perturbed import run_candidate
from parity.experiment.recording import SidePaths
from parity.experiment.runs import EVERYTHING, REPEATED, draw_specs, lockstep_repeated
from parity.experiment.spec import REPETITION, RunSpec
from parity.experiment.stepwise.free import drawn_distance
from parity.experiment.stepwise.lockstep import InLockstep, part_of
from parity.experiment.stepwise.on_demand import remove
from parity.experiment.stepwise.stage import Stage, StatesNow, digests
from parity.judge.levels.float32 import Spreads, candidate_spread
from parity.judge.repeatability import Repeat, judge_repeat
from parity.trace import Trace, TraceWriter, quantity_of
from parity.trace.writer import step_file


class Spread(NamedTuple):
    """What the pass has measured.

    Fields:
      drawn: distances of the reference's draws, by step and trace name.
      spreads: by step the largest distances of both sides' draws in the combined gradients.
      repeats: each side against itself; None of a side that did not repeat itself bit for bit, which is to be measured.
    """

    drawn: dict[tuple[int, str], list[float]]
    spreads: dict[int, Spreads]
    repeats: dict[str, Repeat | None]


def measure_spread(stage: Stage, lockstep: InLockstep) -> Spread:
    """Makes the first steps once more, and the steps of the draws, perturbed too; leaves the reference's where asked."""
    playing, now = stage.playing, StatesNow(stage)
    found = Spread({}, {}, {})
    repeated = playing.steps[: 0 if stage.quick else REPEATED]
    steps = playing.steps if stage.keep else sorted({*repeated, *stage.draw_steps})
    reached = range(max(steps) + 1)
    again: dict[str, dict[int, dict[str, bytes]]] = {"reference": {}, "candidate": {}}
    stage.write_start()
    playing.tf.prepare("float32", playing.inputs).result()
    left: list[Trace] = []
    for done, step in enumerate(reached):
        stage.tick("repeated and perturbed steps", done, len(reached))
        now.write(step, left[-1] if left else None, stage.runs["reference32"].step(step))
        reference = playing.tf.run(_once_more(stage, now, step, of_tf=True)).result()
        if left and not stage.keep:
            remove(left.pop())
        left.append(reference)
        if step in steps and (step in repeated or step in stage.draw_steps):
            candidate = playing.torch.run(_once_more(stage, now, step, of_tf=False)).result()
            if step in repeated:
                for side, trace in (("reference", reference), ("candidate", candidate)):
                    again[side][step] = digests(trace.step(step))
            if step in stage.draw_steps:
                _draw(stage, now.paths, step, (reference, candidate), lockstep, found)
            remove(candidate)
    stage.tick("repeated and perturbed steps", len(reached), len(reached))
    now.remove()
    for side, made in again.items() if repeated else ():
        found.repeats[side] = _repeat(side, lockstep.once[side], made, repeated)
    if stage.keep:
        _gather(stage, left)
    for trace in left:
        remove(trace)
    stage.drop_start()
    return found


def measure_repeats(
    stage: Stage, states: Callable[[], SidePaths], repeats: Mapping[str, Repeat | None]
) -> list[Repeat]:
    """Returns each side against itself; where it did not repeat itself, by two more runs of the same steps.

    Args:
      stage: of the recording.
      states: returns the states before each step, written where a repeat is to be measured.
      repeats: as of `Spread`.
    """
    found = []
    for side, known in repeats.items():
        if known is None:
            ready = states()
            once, again = (
                lockstep_repeated(stage.playing, ready, name)[side].result() for name in (REPETITION, "twice")
            )
            known = judge_repeat(side, once, again, again.step_numbers)
        found.append(known)
    return found


def _once_more(stage: Stage, now: StatesNow, step: int, of_tf: bool) -> RunSpec:
    playing, place = stage.playing, 0 if of_tf else 1
    feeds, start, states = playing.feeds[place], playing.start[place], now.paths[place]
    whole = RunSpec(
        REPETITION,
        "float32",
        feeds,
        start,
        states,
        EVERYTHING + playing.inference,
        playing.steps,
        recorded_counters=True,
    )
    # Of a graph the state is all that a step starts from; a port's own buffers begin every run as it made them.
    return part_of(stage, whole, step, resumed=of_tf)


def _draw(
    stage: Stage, states: SidePaths, step: int, once: tuple[Trace, Trace], lockstep: InLockstep, found: Spread
) -> None:
    gradients = lockstep.errors[step].gradients
    largest = dict.fromkeys(gradients, 0.0)
    drawn: dict[str, list[float]] = {text: [] for text in once[0].step(step).names()}
    for reference, candidate in _runs(stage, states, step, Path(once[0].directory)):
        theirs, own = reference.step(step), candidate.step(step)
        # Read by the names of the unperturbed step, for a draw shows rows of a sparse gradient in an order of its own.
        for text in theirs.names():
            if text in drawn:
                drawn[text].append(drawn_distance(theirs, text, once[0].step(step)))
        for text in largest:
            largest[text] = max(largest[text], candidate_spread(stage.join, text, once[1].step(step), [own]))
        for trace in (reference, candidate):
            remove(trace)
    found.drawn.update({(step, text): each for text, each in drawn.items()})
    found.spreads[step] = {text: (max(drawn[text], default=0.0), largest[text]) for text in gradients}


def _runs(stage: Stage, states: SidePaths, step: int, baseline: Path) -> Iterator[tuple[Trace, Trace]]:
    """Yields the reference's distances and the candidate's gradients, draw by draw; the candidate is one draw ahead."""
    playing = stage.playing
    specs = [
        each._replace(name=f"{each.name}-{step}", initial=False) for each in draw_specs(playing, states.tf, [step])
    ]
    references = [playing.tf.run(each._replace(measured_from=baseline, resumed=True)) for each in specs]

    def candidate(number: int) -> "Future[Trace] | None":
        if number == len(specs):
            return None
        # Of the candidate's draws only gradients are looked at.
        return run_candidate(playing, stage.join, specs[number]._replace(quantities=("grad",)), states.torch)

    coming = candidate(0)
    for number, reference in enumerate(references):
        here, coming = coming, candidate(number + 1)
        assert here is not None, "one for each spec"
        yield reference.result(), here.result()


def _repeat(
    side: str, once: Mapping[int, Mapping[str, bytes]], again: Mapping[int, Mapping[str, bytes]], steps: Sequence[int]
) -> Repeat | None:
    pairs = [
        (once[step][text], value)
        for step in steps
        for text, value in again[step].items()
        if quantity_of(text) in EVERYTHING
    ]
    # Equal bit for bit: of what differs it takes both runs to say by how much.
    return Repeat(side, len(pairs), 0, 0.0, "") if all(one == other for one, other in pairs) else None


def _gather(stage: Stage, parts: Sequence[Trace]) -> None:
    """Leaves the parts of the reference's run in one trace, whose files they give."""
    first, known = parts[0], stage.runs["reference32"]
    out = Path(first.directory).parent / "float32"
    writer = TraceWriter(out, first.producer, known.facts, known.variables, known.activations)
    start = Trace(stage.playing.start.tf).init()
    writer.init({name: start.read(name) for name in start.names()})
    for part in parts:
        (number,) = part.step_numbers
        writer.take_step(number, Path(part.directory) / step_file(number))
    writer.close()
