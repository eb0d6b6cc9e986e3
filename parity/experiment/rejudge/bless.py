"""Has the reference of a case that is blessed leave what later ports are judged by where rounding decides."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from parity.experiment.recording import Recorded, Setup, SidePaths
from parity.experiment.rejudge.ill_conditioned import rounded_runs
from parity.experiment.rejudge.non_differentiable import RUN_BESIDE, moved_batches, moved_state
from parity.experiment.runs import EVERYTHING, FREE_RUN_QUANTITIES, replicas
from parity.experiment.spec import FORWARD, RunSpec
from parity.judge.metrics import distance, norm
from parity.mapping.states import read_all, write_init, write_states
from parity.trace import GRADIENTS, OPTIMIZED, SHADOW_EMPTY, TensorFile, Trace, jumps, parse_key, tower_order
from parity.trace.arrays import Tensors

MOST_BYTES_OF_PASS = 1 << 24  # of a forward pass: a golden trace is small
# Of how far a gradient is from float32's, as in tf_towers.shadow.ill_conditioned: float64 rounds 2^-29 of what float32
# does, a port's float32 may do far more.
ZERO_IN_FLOAT64 = 2.0**-16
CANCELS = 8  # elements that float32 may all make 0 by chance, as in tf_towers.shadow.ill_conditioned


def leave_beside(recorded: Recorded, playing: Setup, states: SidePaths) -> None:
    """Leaves, beside the reference's other runs, those from weights moved aside where a step has a kink.

    Beside them, always, the forward pass of the first step, and the trace `empty`: how far rounding moves
    gradients of nothing but it, and what the optimizer makes of them.

    Args:
      recorded: what was recorded of the case.
      playing: the sides, live ones.
      states: the states before each step.
    """
    playing.tf.prepare("float64", playing.inputs).result()
    # There and back: a step whose gradients jump between the two has a kink between them, and only such a step is kept.
    for inputs, name in RUN_BESIDE.items():
        there, back = _moved(playing, states, name, inputs, 1.0), _moved(playing, states, f"{name}-back", inputs, -1.0)
        if any(jumps(read_all(there.step(number)), read_all(back.step(number))) for number in playing.steps):
            _leave_free(recorded, playing, name, inputs)
        else:
            shutil.rmtree(there.directory)
    _leave_forward(recorded, playing, states)
    write_states(Path(there.directory).parent / SHADOW_EMPTY, _empty(recorded, playing, states))


def _leave_forward(recorded: Recorded, playing: Setup, states: SidePaths) -> None:
    """The first step's forward pass in the first tower, by which the layer of a port's bug is found."""
    step = playing.steps[0]
    tower = min((key.tower for key in recorded.lockstep.reference64.step(step).keys("loss")), key=tower_order)
    asked = RunSpec(FORWARD, "float64", playing.feeds.tf, playing.start.tf, states.tf, (), [step])
    playing.tf.forward(step, tower, asked, MOST_BYTES_OF_PASS)


def _moved(playing: Setup, states: SidePaths, name: str, inputs: bool, towards: float) -> Trace:
    known = Trace(states.tf)
    before = (
        (number, moved_state(read_all(known.step(number)), number, inputs, towards)) for number in known.step_numbers
    )
    follow = write_states(playing.out / "states" / f"tf-{name}", before)
    quantities, feeds = EVERYTHING + playing.inference, _feeds(playing, name, inputs, towards)
    asked = RunSpec(name, "float64", feeds, playing.start.tf, follow, quantities, playing.steps)
    return playing.tf.run(asked).result()


def _feeds(playing: Setup, name: str, inputs: bool, towards: float) -> Path:
    batches = moved_batches(Trace(playing.feeds.tf), playing.steps, towards)
    return write_states(playing.out / "feeds" / f"tf-{name}", batches) if inputs else playing.feeds.tf


def _leave_free(recorded: Recorded, playing: Setup, name: str, inputs: bool) -> None:
    start = moved_state(read_all(recorded.start.init()), 0, inputs)
    out = write_init(playing.out / "start" / f"tf-{name}", start)
    quantities, feeds = FREE_RUN_QUANTITIES + playing.inference, _feeds(playing, name, inputs, 1.0)
    free = RunSpec(f"free-{name}", "float64", feeds, out, None, quantities, playing.steps)
    for asked in (free, *replicas(playing, free)):
        playing.tf.run(asked).result()


def _empty(recorded: Recorded, playing: Setup, states: SidePaths) -> Iterator[tuple[int, Tensors]]:
    rough, exact = recorded.lockstep.reference32, recorded.lockstep.reference64
    # Names by step: zero gradients come and go, as behind a ReLU that is shut.
    found = {number: _names(rough.step(number), exact.step(number)) for number in playing.steps}
    steps = [number for number, names in found.items() if names]
    if not steps:
        return
    runs = list(rounded_runs(playing, states, steps, set().union(*found.values())))
    for number in steps:
        file = exact.step(number)
        keys = [text for text in file.names(*OPTIMIZED, *GRADIENTS) if parse_key(text).name in found[number]]
        files = [run.step(number) for run in runs]
        yield (
            number,
            # One number a tensor, the largest of the runs: a golden trace is committed with a port.
            {text: np.array(max(distance(each.read(text), file.read(text)) for each in files)) for text in keys},
        )


def _names(rough: TensorFile, exact: TensorFile) -> set[str]:
    grads = exact.names("grad")
    apart = {text: (exact.read(text), rough.read(text)) for text in grads}
    return {
        parse_key(text).name
        for text, (one, other) in apart.items()
        if norm(one) <= ZERO_IN_FLOAT64 * distance(one, other) or (other.size <= CANCELS and not other.any())
    }
