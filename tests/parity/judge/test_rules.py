"""The rules that judge again: their order, and to which checks each is applied."""

from types import SimpleNamespace

import pytest
from made_pairs import JOIN, trace

from parity.experiment.rejudge.races import Races
from parity.experiment.rejudge.rules import (
    ILL_CONDITIONED,
    NonDifferentiablePoint,
    Race,
    StructurallyZeroGradient,
    rejudge,
    rules_of_case,
)
from parity.experiment.spec import Capability
from parity.judge.result import Check

GRADIENT = Check("lockstep", 0, "grad/w", "same", 0.0, 1.0, 1.0, 0.5)
UPDATE = Check("lockstep", 0, "var/w", "different", 3.0, 1.0, 1.0, 1.0)
MISSING = Check("lockstep", 0, "slot/m/w", "incomparable", float("inf"))


class Told:
    """A rule that writes down its name and what it was given."""

    def __init__(self, name, applied, applies=True):
        self.name, self._applied, self._applies = name, applied, applies

    def applies(self, checks):
        return self._applies

    def __call__(self, checks):
        self._applied.append((self.name, checks[0].note))
        return [checks[0]._replace(note=self.name)]


def test_rules_are_applied_in_their_order_whatever_order_they_come_in():
    applied = []
    found = rejudge([UPDATE], [Told(name, applied) for name in reversed(ILL_CONDITIONED)])
    assert applied == [("race", ""), ("structurally_zero_gradient", "race"), (ILL_CONDITIONED[2], ILL_CONDITIONED[1])]
    assert found[0].note == "non_differentiable_point"


def test_a_rule_that_does_not_apply_is_left_out():
    applied = []
    assert rejudge([UPDATE], [Told("race", applied, applies=False)]) == [UPDATE]
    assert not applied


@pytest.mark.parametrize(
    ("checks", "applies"),
    [
        ([GRADIENT, UPDATE], True),
        ([GRADIENT, UPDATE._replace(verdict="same")], False),
        ([GRADIENT._replace(size=2.0), UPDATE], False),
        ([GRADIENT, UPDATE._replace(run="free")], False),
        ([UPDATE], False),
    ],
)
def test_updates_by_structurally_zero_gradients_are_measured(checks, applies):
    rule = StructurallyZeroGradient(lambda lost: lambda check: 0.05)
    assert rule.applies(checks) == applies
    assert (rejudge(checks, [rule])[-1].verdict == "same") == (applies or checks[-1].verdict == "same")


@pytest.mark.parametrize(
    ("checks", "applies"),
    [
        ([GRADIENT, UPDATE], True),
        ([GRADIENT, UPDATE._replace(run="free")], True),
        ([GRADIENT], False),
        ([UPDATE, MISSING], False),
        ([UPDATE._replace(run="init")], False),
        ([UPDATE._replace(verdict="not_run")], False),
    ],
)
def test_a_tie_explains_numbers_of_steps_and_nothing_else(checks, applies):
    asked = []
    rule = NonDifferentiablePoint(lambda checks: asked.append(checks) or [])
    assert rule.applies(checks) == applies
    assert rejudge(checks, [rule]) == checks
    assert bool(asked) == applies


def test_a_race_is_judged_where_something_races():
    traces = None
    free = Check("free", 0, "stat/s", "different", 3.0, 1.0)
    quiet = Race(None, JOIN, traces, "float64")
    racing = Race(Races(frozenset(["stat/s"]), None), JOIN, traces, "float64")
    assert (quiet.applies([free]), racing.applies([free])) == (False, True)
    assert rejudge([free], [quiet]) == [free]
    assert rejudge([free], [racing])[0].verdict == "not_run"


@pytest.mark.parametrize(
    ("live", "kept", "races", "rules"),
    [
        (True, False, None, ILL_CONDITIONED),
        (False, True, None, ILL_CONDITIONED),
        (False, False, None, ("race", "non_differentiable_point")),
        # Where statistics race, free and lockstep runs differ from one another whatever is moved.
        (True, False, "a statistic", ("race", "structurally_zero_gradient")),
        (False, False, "a statistic", ("race",)),
    ],
)
def test_a_case_has_the_rules_that_a_live_reference_or_a_golden_trace_can_answer(tmp_path, live, kept, races, rules):
    folder = tmp_path / "empty"
    trace(folder, {})
    capabilities = frozenset([Capability.RERUN] if live else [])
    reference = SimpleNamespace(
        capabilities=capabilities, kept=lambda name: folder if kept and name == "empty" else None
    )
    recorded = SimpleNamespace(races=races, join=JOIN, lockstep=None)
    found = rules_of_case(recorded, SimpleNamespace(tf=reference), None)
    assert tuple(rule.name for rule in found) == tuple(rules)
