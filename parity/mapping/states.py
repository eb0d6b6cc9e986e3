"""Writes down the states that both sides start steps from, in each side's own names."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from parity.mapping.trace_map import Join
from parity.trace import (
    STATE_OF_A_STEP,
    TensorFile,
    Trace,
    TraceWriter,
    batch_input,
    batch_name,
    parse_key,
    select,
    state_after,
    trace_name,
)
from parity.trace.arrays import Array, Tensors

PRODUCER = {"package": "parity"}


def write_init(out: Path, tensors: Mapping[str, Array]) -> Path:
    """Leaves a trace without steps whose init holds `tensors`."""
    writer = TraceWriter(out, PRODUCER)
    writer.init(dict(tensors))
    writer.close()
    return out


def write_states(out: Path, states: Iterable[tuple[int, Mapping[str, Array]]]) -> Path:
    """Leaves a trace whose step k holds the state before step k."""
    writer = TraceWriter(out, PRODUCER)
    writer.init({})
    for number, tensors in states:
        writer.step(number, dict(tensors))
    writer.close()
    return out


def states_before(trace: Trace, steps: Sequence[int]) -> Iterable[tuple[int, Tensors]]:
    """Yields the state before each step of a recorded free run: what the step before left, and its own counters."""
    for number in steps:
        file = trace.step(number - 1) if number else trace.init()
        state = {text: file.read(text) for text in file.names(*STATE_OF_A_STEP)}
        # Counters are recorded as they are before a step, all else as it is after: so they come from the step itself.
        now = trace.step(number)
        state.update((text, now.read(text)) for text in now.names("state"))
        yield number, state


def state_to_evaluate(trace: Trace) -> tuple[int, Tensors]:
    """Returns the state after the last step of a recorded free run, without counters, and the number that follows it."""
    last = trace.step_numbers[-1]
    # Counters are those of training; what an evaluation draws or counts is no part of what is compared.
    return last + 1, select(state_after(trace), *STATE_OF_A_STEP)


def translated(join: Join, tensors: Mapping[str, Array]) -> Tensors:
    """Returns a state of the reference in the candidate's names and layouts; slots that it lacks are left out."""
    return join.write_all(tensors)


def translated_batch(join: Join, batch: Mapping[str, Array]) -> Tensors:
    """Returns a whole batch ("feed/<input>", which has no tower) in the candidate's names and layouts."""
    # The tables of names know the inputs of towers; that of any tower says how a whole batch's is called and laid out.
    fed = {trace_name("feed", batch_input(text), tower=0): value for text, value in batch.items()}
    return {batch_name(parse_key(text).name): value for text, value in translated(join, fed).items()}


def read_all(file: TensorFile) -> Tensors:
    """Reads a whole file of tensors."""
    return {text: file.read(text) for text in file.names()}
