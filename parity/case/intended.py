"""What a case declares that the port does otherwise on purpose, and the reference with it done likewise."""

from typing import Any, NamedTuple

from parity.case.optimizers import Schedule, WeightDecay
from parity.case.schema import Case, Expect

DIFFERENCES = ("combine", "learning_rate_factor", "loss_factor", "weight_decay")


class Declared(NamedTuple):
    """A difference declared in [expect].

    Fields:
      key: of the table, one of `DIFFERENCES`.
      text: what it is, in words.
      by: who declared it, or the case file.
      why: their reason.
    """

    key: str
    text: str
    by: str
    why: str


def declared_differences(case: Case) -> list[Declared]:
    """Returns what [expect] declares, in the order of `DIFFERENCES`."""
    expect = case.expect
    if expect is None:
        return []
    by = expect.by or f"[expect] of {case.directory.name}"
    return [Declared(key, _text(key, expect, case), by, expect.why) for key in _given(expect)]


def as_declared(case: Case) -> Case:
    """Returns the case whose reference does what [expect] declares of the port.

    Only the reference may be built from it: the port is what it is. Doing so twice changes nothing more.
    """
    expect = case.expect
    if expect is None:
        return case
    # The loss is scaled where it is computed, once; all else is in the case from here on, and not to be done again.
    changes: dict[str, Any] = {"expect": _only_the_loss(expect)}
    if expect.combine is not None:
        changes["combine"] = expect.combine
        # It repeats the old combination, or says how a mean is taken.
        changes["tf"] = case.tf.model_copy(update={"reduce": None})
    if case.optimizer is not None:
        optimizer: dict[str, Any] = {}
        if expect.learning_rate_factor is not None:
            optimizer["learning_rate"] = times(case.optimizer.learning_rate, expect.learning_rate_factor)
            changes["optimizers"] = {
                name: part.model_copy(update={"learning_rate": times(part.learning_rate, expect.learning_rate_factor)})
                for name, part in case.optimizers.items()
            }
        if expect.weight_decay is not None:
            optimizer["weight_decay"] = _more(case.optimizer.weight_decay, expect.weight_decay)
        changes["optimizer"] = case.optimizer.model_copy(update=optimizer)
    return case.model_copy(update=changes)


def without(case: Case, keys: tuple[str, ...]) -> Case:
    """Returns the case with some of its declared differences taken back."""
    return case.model_copy(update={"expect": case.expect and case.expect.model_copy(update=dict.fromkeys(keys))})


def times(rate: float | Schedule, factor: float) -> float | Schedule:
    """Returns a learning rate, or every rate of a schedule, times a factor."""
    if not isinstance(rate, Schedule):
        # In float64 here; it is rounded to float32 once, where the graph's optimizer is made.
        return rate * factor
    # Rates scale, what they are decayed by does not.
    rates = {"learning_rate": rate.learning_rate, "end_learning_rate": rate.end_learning_rate}
    changed: dict[str, Any] = {name: value * factor for name, value in rates.items() if value is not None}
    if rate.values is not None:
        changed["values"] = [value * factor for value in rate.values]
    return rate.model_copy(update=changed)


def _given(expect: Expect) -> list[str]:
    return [key for key in DIFFERENCES if getattr(expect, key) is not None]


def _only_the_loss(expect: Expect) -> Expect | None:
    if expect.loss_factor is None:
        return None
    return Expect(why=expect.why, by=expect.by, loss_factor=expect.loss_factor)


def _more(there: WeightDecay | None, more: WeightDecay) -> WeightDecay:
    # Coefficients add, since both multiply the same sum of squares: the names they hold for are the same by now.
    added = there.coefficient if there else 0.0
    return more.model_copy(update={"coefficient": added + more.coefficient})


def _text(key: str, expect: Expect, case: Case) -> str:
    if key == "combine":
        return f"gradients combined by their {expect.combine}, where the towers take the {case.combine}"
    if key == "learning_rate_factor":
        return f"a learning rate {expect.learning_rate_factor:g} times the towers'"
    if key == "loss_factor":
        return f"losses {expect.loss_factor:g} times the towers'"
    decay = expect.weight_decay
    assert decay is not None
    of = f' of the weights named "{decay.only}"' if decay.only else ""
    return f"a weight decay of {decay.coefficient:g} more{of}"
