"""A step of a script that reads a counter beside its update has two right results: a port may give either, and no third."""

import numpy as np
import pytest

from parity.experiment.replay.orders import FREE_RUN_IN_OTHER_ORDER, OTHER, OtherOrder
from parity.experiment.replay.script import Part
from parity.judge import Check, Join
from parity.judge.levels.function import Lockstep
from parity.judge.result import FirstDifference, Level
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import Trace, TraceWriter

EARLY, LATE = np.random.default_rng(0).standard_normal((2, 5, 4))
JOIN = Join(Mapping([Pair("w", ("w",), parse_transform("identity"), "by hand", (5, 4))]), {}, [])
ALLOWED = 1e-6
DIFFERENT = Check("lockstep", 0, "var/w", "different", 1.0, ALLOWED)
FREELY = Check("free", 0, "var/w", "different", 1.0, ALLOWED)


def written(folder, value, **facts):
    writer = TraceWriter(folder, {}, {"towers": 2, **facts}, {"w": {"shape": [5, 4], "kind": "weight"}})
    writer.init({"var/w": np.zeros((5, 4))})
    writer.step(0, {"var/w": value})
    writer.close()
    return Trace(folder)


def sides(tmp_path, port, other=LATE, racing=("state/t",)):
    """A script that read early, and a port; `other` is what the other order gives."""
    shadow = written(tmp_path / "shadow", EARLY, racing=list(racing))
    written(tmp_path / "shadow" / "other_order", other)
    script = written(tmp_path / "script", EARLY.astype("float32"))
    candidates = written(tmp_path / "port32", port.astype("float32")), written(tmp_path / "port64", port)
    part = Part("", script, script.facts, [0], None, set())
    return OtherOrder(part, shadow), Lockstep(script, shadow, *candidates, script)


@pytest.mark.parametrize(("apart", "verdict"), [(0.9, "same"), (1.1, "different")])
def test_the_other_order_is_allowed_as_much_as_the_scripts_own(tmp_path, apart, verdict):
    port = LATE.copy()
    port[0, 0] += apart * ALLOWED
    orders, traces = sides(tmp_path, port)
    (found,) = orders.function([DIFFERENT], JOIN, traces)
    assert (found.verdict, found.note) == (verdict, OTHER if verdict == "same" else "")


def test_a_free_run_says_nothing_once_the_port_takes_the_other_order(tmp_path):
    orders, traces = sides(tmp_path, LATE)
    _, free = orders.function([DIFFERENT, FREELY], JOIN, traces)
    assert (free.verdict, free.note) == ("not_run", FREE_RUN_IN_OTHER_ORDER)
    assert "1 tensors are what the other order" in orders.notes(orders.function([DIFFERENT], JOIN, traces))[0]


def test_a_free_run_alone_and_what_is_not_a_number_stay_different(tmp_path):
    orders, traces = sides(tmp_path / "free", LATE)
    assert orders.function([FREELY], JOIN, traces) == [FREELY]
    orders, traces = sides(tmp_path / "nan", np.full((5, 4), np.nan))
    assert orders.function([DIFFERENT], JOIN, traces) == [DIFFERENT]


def test_a_script_that_does_not_race_has_one_order(tmp_path):
    orders, traces = sides(tmp_path, LATE, racing=())
    assert orders.function([DIFFERENT], JOIN, traces) == [DIFFERENT]
    assert orders.notes([DIFFERENT]) == []


def test_level_2_takes_the_other_order_too_and_keeps_what_is_different_for_another_reason(tmp_path):
    orders, traces = sides(tmp_path, LATE)
    first = FirstDifference(DIFFERENT, "var", "w", "", None)
    level = Level("float32", "different", "1 of 1", [DIFFERENT], first)
    assert orders.float32(level, JOIN, traces).verdict == "same"
    rough = Level(
        "float32", "different", "the candidate computes in less than float32", [DIFFERENT._replace(verdict="same")]
    )
    assert orders.float32(rough, JOIN, traces) is rough
