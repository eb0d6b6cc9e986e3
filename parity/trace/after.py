"""Finds in a trace what a training holds after one of its steps (Python 3.7 and up)."""

from typing import Any, Dict, List, Optional

import numpy as np

from parity.trace.errors import TraceError
from parity.trace.quantities import parse_key, quantity_of
from parity.trace.reader import Trace

STATE_OF_A_STEP = frozenset(["stat", "slot", "var", "ema"])
COUNTERS_AFTER = "counters_after"  # the fact that holds the counters after the last step, which no step records
COMPUTED = frozenset(["state/learning_rate", "state/skipped"])  # recorded with the counters, and no variables


def state_after(trace: Trace, step: Optional[int] = None) -> "Dict[str, np.ndarray[Any, Any]]":
    """Returns the state that a recorded step left: weights, statistics, slots, averages and counters.

    A step records the counters as they were before it. Those after it are the next step's, or after the last one those that
    the trace's facts hold; where neither is there, the step count alone is known, one more.

    Args:
      trace: a trace.
      step: its number; by default the last one, or the initial state of a trace without steps.

    Returns:
      Dict of trace name ("var/…", "slot/…", "state/…") to array.

    Raises:
      TraceError: there is no such step.
    """
    if step is None and not trace.step_numbers:
        file = trace.init()
        return {name: np.array(file.read(name)) for name in file.names()}
    number = trace.step_numbers[-1] if step is None else step
    if number not in trace.step_numbers:
        steps = f"{trace.step_numbers[0]} to {trace.step_numbers[-1]}" if trace.step_numbers else "none"
        raise TraceError(f"trace: expected a step of {trace.directory} ({steps}), got {number}. Name one of them.")
    file = trace.step(number)
    kept = [name for name in file.names() if parse_key(name).quantity in STATE_OF_A_STEP]
    state = {name: np.array(file.read(name)) for name in kept}
    state.update(_counters(trace, number))
    return state


def _counters(trace: Trace, number: int) -> "Dict[str, np.ndarray[Any, Any]]":
    now = trace.step(number)
    names = [name for name in now.names() if parse_key(name).quantity == "state" and not name.endswith(tuple(COMPUTED))]
    if number + 1 in trace.step_numbers:
        following = trace.step(number + 1)
        return {name: np.array(following.read(name)) for name in names if name in following}
    after = trace.facts.get(COUNTERS_AFTER, {}) if number == trace.step_numbers[-1] else {}
    found = {name: np.array(after[name], now.read(name).dtype) for name in names if name in after}
    step = "state/global_step"
    if step in names and step not in found:
        skipped = "state/skipped" in now and bool(now.read("state/skipped"))
        found[step] = np.array(now.read(step)) + (0 if skipped else 1)
    return found


def counters_after(state: "Dict[str, Any]") -> Dict[str, List[Any]]:
    """Returns the counters of a state as the fact that `state_after` looks for: JSON values by trace name."""
    of_state = [name for name in state if quantity_of(name) == "state" and not name.endswith(tuple(COMPUTED))]
    counters = {name: state[name] for name in of_state}
    return {name: np.asarray(value).tolist() for name, value in counters.items() if np.all(np.isfinite(value))}
