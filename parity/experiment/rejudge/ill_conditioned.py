"""Judges again where rounding decides an update: structurally zero gradients, hyper-parameters rounded to float32."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from parity.experiment.recording import Recorded, Setup, SidePaths
from parity.experiment.runs import another_order
from parity.experiment.spec import RunSpec
from parity.judge.allowances import FUNCTION_LIMIT, UNIT32
from parity.judge.metrics import distance
from parity.judge.result import Cause, Check, FirstDifference, Level
from parity.judge.spread import MeasuredSpread
from parity.trace import GRADIENTS, OPTIMIZED, Perturbation, Trace, is_learning_rate, parse_key, quantity_of

# Sets aside what comes of hyper-parameters that TensorFlow's graph rounds to float32 and a port does not.

Recording = TypeVar("Recording")
# Before the first step no hyper-parameter has been used.
EARLY = ("init", "fresh")
OF_UPDATES = frozenset([*OPTIMIZED, "state", "the updates"])  # the last is how a cause calls them all


def set_aside_rounding(
    recorded: Recording,
    function: Level,
    again: Callable[[], tuple[Recording, Level]],
    own_optimizer: bool,
    what: str = "hyper-parameters",
) -> tuple[Recording, Level]:
    """Returns what was recorded and level 1 with the port's hyper-parameters rounded alike, where that changes anything.

    The graph holds float32 hyper-parameters, `torch.optim` doubles: an effect of 1e-8 to 1e-5 that is a fact about the port
    and no bug. Rounding the port's own shows whether there is anything else. Momenta of batch norm always are its own.

    Args:
      recorded: the port as it is.
      function: level 1 of it.
      again: records and judges the port once more, its hyper-parameters rounded.
      own_optimizer: whether the port brings its optimizer or its schedule.
      what: is rounded, in words.
    """
    first = function.first_difference
    # Every rerun costs all of the candidate's runs: only where the first difference may come of rounding.
    if first is None or first.check.run in EARLY:
        return recorded, function
    if first.quantity != "stat" and not (own_optimizer and of_the_optimizer(first)):
        return recorded, function
    # Rounding is an effect of 1e-8 to 1e-5, and an excuse for that alone: what differs at the same tensor has another
    # reason.
    rounded, level = again()
    again_first = level.first_difference
    if again_first is not None and not _is_later(again_first.check, first.check, function.checks):
        return recorded, function  # it is not what rounding alone makes
    # Of the port as it is, for the note says how large an effect was set aside.
    effect = max((check.of_scale for check in function.checks if check.run == "lockstep"), default=0.0)
    note = (
        f"up to float32 {what}: the graph holds them rounded to float32, the port does not, which alone makes "
        f"differences of {effect:.1g} of the scale (first in {first.check.key}); "
        "judged with the port's rounded to float32 too"
    )
    return rounded, replace(level, notes=[note, *level.notes])


def _is_later(check: Check, known: Check, checks: Sequence[Check]) -> bool:
    """Whether a check stands behind another among those of a level, as what is computed of it does.

    A graph that multiplies by numbers of Python's rounds none of them: then a port that is rounded differs sooner.
    """
    for each in checks:
        if each[:3] in (check[:3], known[:3]):
            return each[:3] == known[:3] != check[:3]
    return True


def of_the_optimizer(first: FirstDifference) -> bool:
    """Returns whether a difference is in what optimizers compute, or in what schedules do."""
    return first.quantity in ("slot", "var") or is_learning_rate(first.check.key)


def but_for_rounding(
    find: Callable[[Recording], list[Cause]],
    recorded: Recording,
    again: Callable[[], tuple[Recording, Level]],
    own_optimizer: bool,
) -> list[Cause]:
    """Returns the causes of further differences that the rounding of hyper-parameters does not make by itself.

    Behind a first difference that has nothing to do with updates these have not been judged with hyper-parameters rounded
    alike.

    Args:
      find: names causes in what was recorded.
      recorded: the port as it is.
      again: records and judges the port once more, its hyper-parameters rounded.
      own_optimizer: whether the port brings its optimizer or its schedule.
    """
    found = find(recorded)
    if own_optimizer and any(cause.explains and quantity_of(cause.explains.key) in OF_UPDATES for cause in found):
        return find(again()[0])
    return found


# Judges again gradients that are nothing but rounding, and what optimizers make of them.

ZERO_GRADIENT_NOTE = (
    "its gradient is structurally zero; judged by how one-ulp changes and other orders of the examples change it"
)
Moves = Callable[[Check], float]


def settle_empty_gradients(checks: list[Check], measure: Callable[[Sequence[Check]], Moves]) -> list[Check]:
    """Returns the checks of level 1, gradients of nothing but rounding and updates by them judged by what rounding does.

    A bias in front of a batch norm has a gradient of zero, and what a program computes for it is rounding. Where Adam's
    slots are empty its update of such a bias is about the learning rate in float32, whose rounding is far above epsilon, and
    proportional to the gradient in float64, whose rounding is far below: float32's distance from float64 foretells too
    little. It foretells nothing of a gradient of one or two elements that both float32 runs happen to cancel exactly. So
    where such an update or gradient differs, the reference makes the step again, other weights and inputs one ulp of
    float64 away and the examples of each shard in another order, and 64 times the largest distance of these runs is allowed
    beside what was.

    Args:
      checks: of level 1.
      measure: takes the checks of such tensors; returns a function of each to the largest distance of those runs in it.
    """
    lost = lost_to_rounding(checks)
    if not lost:
        return checks
    moves = measure(lost)
    # By check, not by name: the same variable may be lost in several steps, each with distances of its own.
    judged = {check: _judged(check, max(map(moves, [check, *_siblings(check, checks, lost)]))) for check in lost}
    # What is made of a gradient that differs all the same stays as it was.
    gradients = empty_in([judged.get(check, check) for check in checks])
    return [judged[check] if check in judged and _is_lost(check, gradients) else check for check in checks]


def _siblings(lost: Check, checks: Sequence[Check], all_lost: Sequence[Check]) -> list[Check]:
    # A sum of few terms takes few values: of 80 right runs with two or three examples a tower, two had a gradient that all
    # three draws gave alike. So a gradient may move as far as the variable's do in any tower and step that was made again.
    key, steps = parse_key(lost.key), {check.step for check in all_lost}
    if key.quantity not in GRADIENTS:
        return []
    repeated = [check for check in checks if check.run == "lockstep" and check.step in steps]
    return [
        check for check in repeated if quantity_of(check.key) in GRADIENTS and parse_key(check.key).name == key.name
    ]


def measure_kept(kept: Trace, prefix: str = "") -> Callable[[Sequence[Check]], Moves]:
    """Returns a `measure` that reads distances which were measured where the reference is.

    Args:
      kept: a trace of them, by step and tensor.
      prefix: what names start with in it.
    """
    spread, known = MeasuredSpread(kept, prefix), set(kept.step_numbers)
    return lambda lost: lambda check: spread.measured(check.step, check.key) if check.step in known else 0.0


def lost_to_rounding(checks: Sequence[Check]) -> list[Check]:
    """Returns the checks that differ of gradients that are nothing but rounding and of updates by them."""
    cancelled = {(check.step, parse_key(check.key).name) for check in checks if _is_cancelled(check)}
    empty = empty_in(checks) | cancelled
    return [check for check in checks if _is_lost(check, empty)]


def empty_in(checks: Sequence[Check]) -> set[tuple[int, str]]:
    """Returns step and variable of every combined gradient that is the same and nothing but rounding."""
    return {
        (check.step, parse_key(check.key).name)
        for check in checks
        if check.run == "lockstep" and quantity_of(check.key) == "grad" and check.verdict == "same"
        # The whole gradient is within what rounding may make of it: no digit of it is known.
        if check.size <= check.allowed or check.note == ZERO_GRADIENT_NOTE
    }


def _is_lost(check: Check, empty: set[tuple[int, str]]) -> bool:
    if check.run != "lockstep" or check.verdict != "different":
        return False
    key = parse_key(check.key)
    return _is_cancelled(check) or (key.quantity in OPTIMIZED and (check.step, key.name) in empty)


def _is_cancelled(check: Check) -> bool:
    # `scale` is (eT + eP) / u32 and more: gradient and difference are no larger than what float32 lost, as where it cancels
    # to 0 on both sides. Whether that is rounding the runs of the reference tell: of a gradient that underflows, or that a
    # closed ReLU makes 0, they are not apart.
    return quantity_of(check.key) in GRADIENTS and max(check.size, check.difference) <= check.scale * UNIT32


def _judged(check: Check, spread: float) -> Check:
    # The same 64 as for all of level 1: three runs find the size of an effect, not its largest value.
    allowed = check.allowed + FUNCTION_LIMIT * spread
    if not check.difference <= allowed:  # NaN is not
        return check
    return check._replace(verdict="same", allowed=allowed, note=ZERO_GRADIENT_NOTE)


def empty_notes(checks: Sequence[Check]) -> list[str]:
    """Returns what a report says of tensors that were judged so."""
    found = sorted({check.key for check in checks if check.note == ZERO_GRADIENT_NOTE})
    return [f"{', '.join(found)}: {ZERO_GRADIENT_NOTE}"] if found else []


# Measures on a live reference how far rounding moves a gradient of nothing but rounding and what is made of it.

DRAWS = 3


def measure_live(recorded: Recorded, playing: Setup, states: SidePaths, lost: Sequence[Check]) -> Moves:
    """Has the reference make steps again, other weights and inputs an ulp away and the examples in another order.

    Args:
      recorded: what was recorded of the case.
      playing: the sides, live ones.
      states: the states before each step.
      lost: the checks that are judged so.

    Returns:
      Function of such a check to the largest distance of those runs from the reference.

    Counterpart: tf_towers.shadow.ill_conditioned.EmptyGradients
    """
    reference, names = recorded.lockstep.reference64, {parse_key(check.key).name for check in lost}
    runs = list(rounded_runs(playing, states, sorted({check.step for check in lost}), names))
    return lambda check: max(_apart(run, reference, check) for run in runs)


def _apart(run: Trace, reference: Trace, check: Check) -> float:
    return distance(run.step(check.step).read(check.key), reference.step(check.step).read(check.key))


def rounded_runs(playing: Setup, states: SidePaths, steps: Sequence[int], names: set[str]) -> Iterator[Trace]:
    """Yields the reference's runs; the variables that are judged stay where they are, so that only rounding moves them."""
    playing.tf.prepare("float64", playing.inputs).result()
    feeds, start, quantities = playing.feeds.tf, playing.start.tf, tuple(sorted(OPTIMIZED | GRADIENTS))
    for draw in range(DRAWS):
        # From the recorded states, counters too: the steps need not follow each other.
        asked = RunSpec(f"empty-{draw}", "float64", feeds, start, states.tf, quantities, steps, True)
        # An ulp of the variable itself would move the updated weight by an ulp, far more than its update.
        weights = Perturbation("ulp", "var", draw, DRAWS, but=tuple(sorted(names)))
        inputs = Perturbation("ulp", "feed", draw, DRAWS)
        moved = (weights, inputs, another_order(playing, draw, DRAWS))
        yield playing.tf.run(asked._replace(perturbations=moved)).result()
