"""Declared differences that a port does not have are told by references without them: which are built, and what is said."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.made_sides import CASE, made_case

from parity.case import declared_differences
from parity.experiment import intended
from parity.experiment.intended import look_for_declared
from parity.judge.result import Cause, Level

DECLARED = {"combine": '"sum"', "learning_rate_factor": "2.0", "loss_factor": "4.0"}
SIDES, TICK = object(), object()


def declaring(folder, *keys):
    lines = "".join(f"{key} = {DECLARED[key]}\n" for key in keys)
    return made_case(folder, f'{CASE}[expect]\nwhy = "the new recipe"\nby = "ada"\n{lines}')


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Looks for what a case declares, where the port has all but those `lacking`; returns what was built beside it."""
    built = []

    def run(keys, verdicts, lacking=(), live=True):
        case = declaring(tmp_path / "case", *keys)

        class Made:
            def __init__(self, changed, *more):
                self._changed = changed
                built.append((tuple(each.key for each in declared_differences(changed)), *more))

            def record(self):
                return self._changed

        def judged(recorded, steps):
            left = {each.key for each in declared_differences(recorded)}
            assert steps == range(case.steps)
            return SimpleNamespace(verdict="same" if left == set(keys) - set(lacking) else "different")

        monkeypatch.setattr(intended, "Recorder", Made)
        monkeypatch.setattr(intended, "judge_function", judged)
        own = Cause("own", "", "", "")
        levels = {name: Level(name, verdict, "", causes=[own]) for name, verdict in verdicts.items()}
        became, found = look_for_declared(case, SIDES, Path("out"), levels, live, TICK)
        assert [(each.key, each.by, each.why) for each in became] == [(key, "ada", "the new recipe") for key in keys]
        causes = {name: [cause.name for cause in level.causes] for name, level in found.items()}
        assert {name: replace(level, causes=[own]) for name, level in found.items()} == levels
        return [each.found for each in became], causes, found

    run.built = built
    return run


def test_what_is_declared_holds_where_all_levels_are_the_same(look):
    became, causes, _ = look(["combine", "loss_factor"], {"function": "same", "float32": "same"})
    assert became == ["holds", "holds"] and causes == {"function": ["own"], "float32": ["own"]}
    assert look.built == []


@pytest.mark.parametrize("verdicts", [{"function": "same", "float32": "incomparable"}, {"function": "not_run"}])
def test_nothing_is_known_of_it_where_a_level_is_neither_same_nor_different(look, verdicts):
    assert look(["combine"], verdicts)[0] == ["not_known"] and look.built == []


def test_nothing_is_known_of_it_where_no_reference_can_be_built(look):
    became, causes, _ = look(["combine"], {"function": "different"}, ["combine"], live=False)
    assert (became, causes, look.built) == (["not_known"], {"function": ["own"]}, [])


def test_each_is_taken_away_alone_until_the_port_is_the_same(look):
    keys = ["combine", "learning_rate_factor", "loss_factor"]
    verdicts = {"function": "same", "float32": "different", "trajectory": "different"}
    became, causes, levels = look(keys, verdicts, ["learning_rate_factor"])
    assert became == ["not_known", "absent", "not_known"]
    assert causes == {"function": ["own"], "float32": ["declared_difference_absent", "own"], "trajectory": ["own"]}
    cause = levels["float32"].causes[0]
    assert cause.title == "the declared difference is not there: a learning rate 2 times the towers'"
    assert cause.evidence == "against a reference without it the port is the same in every tensor of level 1"
    first, second = look.built
    assert first == (("learning_rate_factor", "loss_factor"), SIDES, Path("out/without-combine"), False, TICK)
    assert second == (("combine", "loss_factor"), SIDES, Path("out/without-learning_rate_factor"), False, TICK)


def test_at_last_all_are_taken_away_together(look):
    keys = ["combine", "loss_factor"]
    became, _, levels = look(keys, {"function": "different"}, keys)
    assert became == ["absent", "absent"]
    assert [str(each[2]) for each in look.built] == [
        f"out/without-{tried}" for tried in ("combine", "loss_factor", "combine-loss_factor")
    ]
    texts = "gradients combined by their sum, where the towers take the mean and losses 4 times the towers'"
    assert levels["function"].causes[0].title.endswith(f": {texts}")


@pytest.mark.parametrize(("keys", "runs"), [(["combine"], 1), (["combine", "loss_factor"], 3)])
def test_one_alone_is_not_tried_twice_and_what_explains_nothing_is_not_called_absent(look, keys, runs):
    became, causes, _ = look(keys, {"function": "different"}, ["another"])
    assert became == ["not_known"] * len(keys) and causes == {"function": ["own"]}
    assert len(look.built) == runs
