"""A search for causes that fails by its own fault costs the cause, not the verdict."""

import pytest
from support.tiny_case import BREAK, write_case

from parity.case import load_case
from parity.experiment import run_case, session
from parity.experiment.recover import DEBUG, outliving
from parity.worker.failures import SideFailed

OTHER = "return 2 * (model(x) - y).square().mean()"


def fail(*_, **__):
    return ()[1]


def test_what_a_search_finds_is_handed_on_and_what_it_meets_is_noted(monkeypatch):
    monkeypatch.delenv(DEBUG, raising=False)
    notes = []
    assert outliving(notes, lambda: 3) == 3 and not notes
    assert outliving(notes, fail) is None
    assert "IndexError" in notes[0] and f"{DEBUG}=1" in notes[0]
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(IndexError):
        outliving(notes, fail)


def test_a_side_that_hangs_in_an_experiment_costs_the_causes_that_are_left(monkeypatch):
    monkeypatch.delenv(DEBUG, raising=False)

    def end():
        raise SideFailed("torch", "it ended.")

    notes = []
    assert outliving(notes, end) is None
    assert notes[0].startswith("the search for causes did not finish: ") and "it ended." in notes[0]
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(SideFailed):
        outliving(notes, end)


@pytest.mark.parametrize("step", ["locate_first", "with_causes_at"])
def test_the_verdict_stands_where_causes_cannot_be_looked_for(tf2_sides, tmp_path, monkeypatch, step):
    monkeypatch.delenv(DEBUG)
    monkeypatch.setattr(session, step, fail)
    result = run_case(load_case(write_case(tmp_path / "tiny", torch=f"{BREAK} -> {OTHER}")), tf2_sides)
    assert result.verdict == "different" and result.first_difference is not None
    assert any("the search for causes did not finish" in note for note in result.levels["function"].notes)
