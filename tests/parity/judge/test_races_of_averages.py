"""What an average may be where nobody says whether it takes the old weights or the new ones, on numbers that are known."""

import numpy as np
import pytest

from parity.case import Ema
from parity.experiment.rejudge.races import Races, race_notes, settle_races
from parity.judge import Check, Join
from parity.judge.levels.function import Lockstep
from parity.judge.races import decays
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import Trace, TraceWriter

RANDOM = np.random.default_rng(0)
OLD, NEW, START = RANDOM.standard_normal((3, 5, 4))
EMA = Ema(decay=0.9, num_updates=True, order="unordered")
CHECKS = [Check("lockstep", 7, "ema/w", "different", 1.0), Check("free", 7, "ema/w", "different", 1.0)]


def trace(folder, tensors):
    writer = TraceWriter(folder, {}, {"precision": "float64"})
    writer.init({})
    writer.step(7, tensors)
    writer.close()
    return Trace(folder)


def judged(tmp_path, reference, candidate, checks=CHECKS, ema=EMA):
    def side(name, average):
        whole = {"var/w": NEW, "ema/w": average}
        halves = {text: value.astype("float32") for text, value in whole.items()}
        return trace(tmp_path / f"{name}32", halves), trace(tmp_path / f"{name}64", whole)

    states = trace(tmp_path / "states", {"var/w": OLD, "ema/w": START, "state/global_step": np.array(7)})
    join = Join(Mapping([Pair("w", ("w",), parse_transform("identity"), "by hand", (5, 4))]), {}, [])
    traces = Lockstep(*side("reference", reference), *side("candidate", candidate), states)
    return settle_races(checks, Races(frozenset(["ema/w"]), ema), join, traces, "float64")


def by_hand(weight, updates, decay=0.9):
    part = np.float32(1) - min(np.float32(decay), np.float32(1 + updates) / np.float32(10 + updates))
    return START - (START - weight) * np.float64(part)


@pytest.mark.parametrize("updates", [7, 8])
def test_old_weights_and_new_ones_are_right_with_the_count_before_the_update_or_after_it(tmp_path, updates):
    lockstep, free = judged(tmp_path, by_hand(OLD, updates), by_hand(NEW, 8))
    assert (lockstep.verdict, lockstep.note) == ("same", "as of the old weights")
    assert (free.verdict, free.difference) == ("not_run", 0.0)
    assert (
        "1 of 1 are what one of the possible orders gives"
        in race_notes(Races(frozenset(["ema/w"]), EMA), [lockstep])[0]
    )


def test_what_is_read_while_it_is_written_is_of_both(tmp_path):
    torn = np.where(np.arange(5)[:, np.newaxis] < 2, by_hand(OLD, 8), by_hand(NEW, 8))
    assert judged(tmp_path, torn, by_hand(NEW, 8))[0].note == "as of the old weights and the new weights"


@pytest.mark.parametrize(("updates", "decay"), [(9, 0.9), (6, 0.9), (8, 0.4)])
def test_an_average_of_another_decay_is_different_on_either_side(tmp_path, updates, decay):
    right, wrong = by_hand(NEW, 8), by_hand(NEW, updates, decay)
    for name, sides in (("port", (right, wrong)), ("towers", (wrong, right))):
        found = judged(tmp_path / name, *sides)[0]
        assert (found.verdict, found.note) == ("different", "neither of the old weights nor of the new weights")
        assert found.difference > 1e-3


def test_one_that_is_not_a_number_or_not_there_is_never_the_same(tmp_path):
    broken = by_hand(NEW, 8)
    broken[0, 0] = np.nan
    assert judged(tmp_path / "nan", by_hand(NEW, 8), broken)[0].verdict == "different"
    lacking = [Check("lockstep", 7, "ema/w", "incomparable", note="the candidate has no such tensor")]
    assert judged(tmp_path / "none", by_hand(NEW, 8), by_hand(NEW, 8), lacking) == lacking


def test_only_what_is_evaluated_from_racing_averages_is_set_aside():
    races = Races(frozenset(["ema/w"]), EMA)
    assert races.is_evaluated_from("eval/ema/loss") and not races.is_evaluated_from("eval/loss")
    assert Races(frozenset(["ema/w", "stat/m"]), EMA).is_evaluated_from("eval/loss")


def test_a_decay_is_one_number_unless_it_grows_with_the_updates():
    assert decays(0.9, False, 7) == [np.float32(0.9)]
    assert decays(0.9, True, 0) == [np.float32(0.1), np.float32(2) / np.float32(11)]
    assert decays(0.9, True, 1000) == [np.float32(0.9), np.float32(0.9)]
