"""A search for causes that fails by its own fault costs the cause, not the verdict."""

import numpy as np
import pytest
from support.tiny_case import BREAK, write_case

from parity.case import load_case
from parity.experiment import diagnosis, run_case
from parity.experiment.diagnosis import DEBUG, outliving, refine
from parity.judge.result import Level
from parity.worker.failures import SideFailed

OTHER = "return 2 * (model(x) - y).square().mean()"


def fail(*_, **__):
    return ()[1]


def test_what_a_search_finds_is_handed_on_and_what_it_meets_is_noted(monkeypatch):
    monkeypatch.delenv(DEBUG, raising=False)
    assert outliving(lambda: 3) == (3, [])
    found, [note] = outliving(fail)
    assert found is None and "IndexError" in note and f"{DEBUG}=1" in note
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(IndexError):
        outliving(fail)


def test_numbers_that_overflow_while_causes_are_looked_for_are_no_news():
    # Warnings fail a test: numpy gives one for each of these elsewhere.
    found, notes = outliving(lambda: float((np.full(3, 1e300) ** 2).sum() - np.full(3, np.inf).sum()))
    assert np.isnan(found) and not notes
    with pytest.warns(RuntimeWarning):
        np.full(3, 1e300) ** 2


def test_a_side_that_hangs_in_an_experiment_costs_the_causes_that_are_left(monkeypatch):
    monkeypatch.delenv(DEBUG, raising=False)

    def end():
        raise SideFailed("torch", "it ended.")

    found, [note] = outliving(end)
    assert found is None
    assert note.startswith("the search for causes did not finish: ") and "it ended." in note
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(SideFailed):
        outliving(end)


def test_what_the_stages_before_one_that_fails_have_found_stays(monkeypatch):
    monkeypatch.delenv(DEBUG, raising=False)
    level = Level("function", "different", "")
    refined = refine(level, [lambda each: each.with_notes("found"), fail, lambda each: each.with_notes("later")])
    assert refined.notes[0] == "found" and "did not finish" in refined.notes[1] and len(refined.notes) == 2
    assert not level.notes


@pytest.mark.parametrize("step", ["locate_first", "with_causes_at"])
def test_the_verdict_stands_where_causes_cannot_be_looked_for(tf2_sides, tmp_path, monkeypatch, step):
    monkeypatch.delenv(DEBUG)
    monkeypatch.setattr(diagnosis, step, fail)
    result = run_case(load_case(write_case(tmp_path / "tiny", torch=f"{BREAK} -> {OTHER}")), tf2_sides)
    assert result.verdict == "different" and result.first_difference is not None
    assert any("the search for causes did not finish" in note for note in result.levels["function"].notes)
