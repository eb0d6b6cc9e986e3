"""What is named where an input is read takes on the experiment that undoes it, and nothing else does."""

from types import SimpleNamespace

import pytest

from parity.diagnose.interventions import two_causes as undoable
from parity.diagnose.interventions.protocol import Change, Undone
from parity.judge.result import Cause, Check, FirstDifference
from parity.mapping.trace_map import Join

TURN = Change("transposed_input", "the port exchanges height and width of x", "turn", "with x turned")
NAMED = Cause("transposed_input", "exchanges rows and columns of x in front of hidden", "so it is", "permute")
FIRST = FirstDifference(Check("lockstep", 0, "act/0/hidden", "different", 1.0, 1e-12), "act", "hidden", "0", None)
EVIDENCE = SimpleNamespace(join=Join, reference=None, candidate=None)


@pytest.fixture
def changes(monkeypatch):
    """Lets the changes in the list undo the difference."""
    undoing: list[str] = []

    def undone(bench, change):
        return Undone("", "", "", "", change=change) if change.name in undoing else None

    monkeypatch.setattr(undoable, "changes_to_try", lambda bench: [TURN._replace(name="reversed_input"), TURN])
    monkeypatch.setattr(undoable, "knobs", lambda bench: [])
    monkeypatch.setattr(undoable, "undone", undone)
    monkeypatch.setattr(undoable, "one_of_two", lambda *what: None)
    return undoing


def found(known):
    return undoable.with_its_change(FIRST, known, SimpleNamespace(), EVIDENCE, [])


def test_what_undoes_it_is_kept_with_what_is_told(changes):
    changes += ["reversed_input", "transposed_input"]
    (cause,) = found([NAMED])
    assert isinstance(cause, Undone) and cause.change is TURN
    assert (cause.name, cause.title, cause.evidence) == (NAMED.name, NAMED.title, NAMED.evidence)


def test_what_undoes_another_cause_is_not_tried(changes):
    changes.append("reversed_input")
    assert found([NAMED]) == [NAMED]


def test_what_is_left_of_it_comes_behind(changes, monkeypatch):
    bias = Cause("bias_missing", "hidden adds no bias", "", "")
    asked = []

    def one_of_two(*what):
        asked.append(what[-1])
        return Undone("", "", "", "", change=TURN), bias

    monkeypatch.setattr(undoable, "one_of_two", one_of_two)
    other = Cause("not_shared", "", "", "")
    assert [each.name for each in found([NAMED, other])] == ["transposed_input", "bias_missing", "not_shared"]
    assert asked == ["transposed_input"]
