"""Level 4, `mixed`: is reduced precision as good as half precision's rounding lets it be? The port against itself."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parity.judge.metrics import distance, norm
from parity.judge.result import Check, refuse
from parity.trace import EXECUTION_RANK, TensorFile, Trace, parse_key
from parity.trace.arrays import Array

LIMIT = 4.0
UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
# Half the spacing of the smallest numbers: what rounding does to a value that is too small for a relative error.
TINIEST = {"float16": 2.0**-25, "bfloat16": 2.0**-134}
UPDATED = frozenset(["var", "stat", "ema"])
JUDGED = frozenset(["act", "loss", "metric", "tower_grad", "grad", "clip", "slot", "stat", "var", "ema"])
OF_GRADIENTS = frozenset(["tower_grad", "grad", "clip"])
FIRST_SCALE, LARGEST_SCALE, WINDOW = 2.0**16, 2.0**24, 2000


class Halves(NamedTuple):
    """What was recorded of a port in half precision, and beside it.

    Fields:
      full: the port in float32, made from the same state before every step.
      mixed: the same at its level.
      free: the same at its level, nobody resetting it.
      draws: pairs of float32 traces with random roundings by the half type's unit roundoff, and of the states before their
        steps.
      states: step k holds the state before step k.
      dtype: "float16" or "bfloat16".
      opt_level: "O1", "O2" or "O3".
    """

    full: Trace
    mixed: Trace
    free: Trace
    draws: Sequence[tuple[Trace, Trace]]
    states: Trace
    dtype: str
    opt_level: str

    @property
    def unit(self) -> float:
        """The unit roundoff of the half type."""
        return UNITS[self.dtype]


def judge_mixed(halves: Halves) -> list[Check]:
    """Judges every tensor of every step: within ``4 (H + 2 u ||P|| + z)`` of the port's own float32 run.

    H is the largest distance that a draw has from the float32 run: what roundings by the unit roundoff u of the half type in
    weights, inputs, products and their gradients do to this tensor at this state. P is the tensor; of a weight or statistic
    its update, and where these are kept in half precision themselves (O3) storing them adds ``2 u ||w||``: what that level
    costs. z is what becomes of values below the smallest normal number.

    What comes of a gradient that overflowed is not judged: the step is skipped, which `judge_scale` looks at.
    """
    checks: list[Check] = []
    for step in halves.mixed.step_numbers:
        full, mixed = halves.full.step(step), halves.mixed.step(step)
        skipped = "state/skipped" in mixed and bool(mixed.read("state/skipped"))
        for text in _in_order(full):
            quantity = parse_key(text).quantity
            if quantity not in JUDGED:
                continue
            if skipped and quantity not in ("act", "loss", "metric", "stat"):
                note = "not judged: the gradients overflowed, and the step is skipped"
                checks.append(Check("lockstep", step, text, "not_run", note=note))
                continue
            checks.append(_judged(halves, step, text, full, mixed))
    return checks


def judge_scale(halves: Halves) -> list[Check]:
    """Judges loss scale and skipped steps against Apex's rule: halve and skip on overflow, double after 2000 clean steps.

    Both runs are judged, and that a skipped step leaves weights and slots to the bit as they were.
    """
    if not all("state/loss_scale" in trace.step(step) for trace in (halves.mixed, halves.free) for step in _few(trace)):
        return []
    checks: list[Check] = []
    for run, trace in (("lockstep", halves.mixed), ("free", halves.free)):
        files = {step: trace.step(step) for step in trace.step_numbers}
        overflows = [not _finite_gradients(file) for file in files.values()]
        wanted = zip(scales(overflows), overflows, strict=True)
        for (step, file), (scale, overflowed) in zip(files.items(), wanted, strict=True):
            found, skipped = float(file.read("state/loss_scale")), float(file.read("state/skipped"))
            checks.append(_exact(run, step, "state/loss_scale", scale, found))
            checks.append(_exact(run, step, "state/skipped", float(overflowed), skipped))
    return checks + _skipped_updates(halves.free)


def scales(overflows: Sequence[bool]) -> list[float]:
    """Returns the loss scale that Apex's rule has at each step: halved after an overflow, doubled after 2000 without.

    Args:
      overflows: for each step whether a gradient was not finite.

    Source: apex/amp/scaler.py (tag 25.04).
    """
    found, scale, clean = [], FIRST_SCALE, 0
    for overflowed in overflows:
        found.append(scale)
        scale, clean = (scale / 2, 0) if overflowed else (scale, clean + 1)
        if clean == WINDOW:
            scale, clean = min(2 * scale, LARGEST_SCALE), 0
    return found


def all_skipped(trace: Trace) -> bool:
    """Returns whether no step of a run was made."""
    files = [trace.step(step) for step in trace.step_numbers]
    return all("state/skipped" in file and bool(file.read("state/skipped")) for file in files)


def _judged(halves: Halves, step: int, text: str, full: TensorFile, mixed: TensorFile) -> Check:
    wanted, got = full.read(text), mixed.read(text) if text in mixed else None
    refused = refuse("lockstep", step, text, wanted, got)
    if refused or got is None:
        return refused or Check("lockstep", step, text, "incomparable", note="the mixed run has no such tensor")
    before = halves.states.step(step)
    updated = parse_key(text).quantity in UPDATED and text in before
    start = before.read(text) if updated else np.zeros((), wanted.dtype)
    update = wanted - start
    spread = 0.0
    for draw, states in halves.draws:
        moved_from = states.step(step).read(text) if updated else start
        spread = max(spread, distance(draw.step(step).read(text) - moved_from, update))
    # At O3 everything is kept in half precision; at O1 and O2 nothing that is carried from step to step is.
    stored = 2 * halves.unit * norm(start) if updated and halves.opt_level == "O3" else 0.0
    tiny = _tiny(halves, mixed, text, wanted)
    allowed = LIMIT * (spread + 2 * halves.unit * norm(update) + tiny) + stored
    difference = distance(got, wanted)
    verdict = "same" if difference <= allowed else "different"
    scale = max(allowed / (LIMIT * halves.unit), norm(update))
    return Check("lockstep", step, text, verdict, difference, allowed, scale, norm(wanted))  # type: ignore[arg-type]


def _tiny(halves: Halves, mixed: TensorFile, text: str, wanted: Array) -> float:
    quantity = parse_key(text).quantity
    scaled = quantity in OF_GRADIENTS and "state/loss_scale" in mixed
    scale = float(mixed.read("state/loss_scale")) if scaled else 1.0
    return TINIEST[halves.dtype] * float(np.sqrt(wanted.size)) / scale


def _exact(run: str, step: int, text: str, wanted: float, got: float) -> Check:
    same = wanted == got
    note = "" if same else f"{got:g} where Apex's rule gives {wanted:g}"
    return Check(run, step, text, "same" if same else "different", abs(got - wanted), 0.0, wanted, abs(wanted), note)


def _finite_gradients(file: TensorFile) -> bool:
    return all(bool(np.isfinite(file.read(text)).all()) for text in file.names() if text.startswith("grad/"))


def _skipped_updates(trace: Trace) -> list[Check]:
    checks, previous = [], trace.init()
    for step in trace.step_numbers:
        file = trace.step(step)
        held = [text for text in file.names() if text.startswith(("var/", "slot/")) and text in previous]
        for text in held if bool(file.read("state/skipped")) else []:
            moved = distance(file.read(text), previous.read(text))
            note = "" if moved == 0.0 else "a skipped step moved it"
            checks.append(Check("free", step, text, "different" if moved else "same", moved, note=note))
        previous = file
    return checks


def _in_order(file: TensorFile) -> list[str]:
    names = file.names()
    place = {text: (EXECUTION_RANK[parse_key(text).quantity], number) for number, text in enumerate(names)}

    def order(text: str) -> tuple[int, int]:
        rank, number = place[text]
        return rank, -number if parse_key(text).quantity in OF_GRADIENTS else number

    return sorted(names, key=order)


def _few(trace: Trace) -> list[int]:
    return list(trace.step_numbers)[:1]
