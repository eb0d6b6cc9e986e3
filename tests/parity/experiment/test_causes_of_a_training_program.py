"""What a port's own `train` does otherwise is named, where each step that is replayed alone is the script's."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.replay.free_run import FreeRuns
from parity.experiment.replay.training import AS_ROUNDED, ROUNDING_OF_DECAY, by_rounded_decay
from parity.experiment.replay.training_causes import causes_of_training
from parity.judge import Check, FirstDifference, Join
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import Trace, TraceWriter, parse_key

SHAPE = (3, 2)
RANDOM = np.random.default_rng(3)
GRADIENTS = [{name: RANDOM.standard_normal(SHAPE) for name in ("v", "w")} for _ in range(4)]
START = {name: RANDOM.standard_normal(SHAPE) for name in ("v", "w")}
RATES = (0.1, 0.1, 0.05, 0.05)
DECAY = 0.9


def trained(gradients=GRADIENTS, rates=RATES, early=False, decay=DECAY):
    """Four steps of plain gradient descent with averages: what each leaves, and the state before it."""
    steps, states, weights, averages = [], [], dict(START), dict(START)
    for given, rate in zip(gradients, rates, strict=True):
        states.append(named(var=weights, ema=averages))
        new = {name: weights[name] - rate * given[name] for name in weights}
        to = weights if early else new
        averages = {name: averages[name] + (1 - decay) * (to[name] - averages[name]) for name in weights}
        weights = new
        rated = {"state/learning_rate": np.array(rate)}
        steps.append({**named(grad=given, var=weights, ema=averages), **rated})
    return steps, states


def named(**quantities):
    return {f"{quantity}/{name}": value for quantity, found in quantities.items() for name, value in found.items()}


def trace(folder, steps, **facts):
    writer = TraceWriter(folder, {}, {"precision": "float64", **facts})
    writer.init(named(var=START, ema=START))
    for number, tensors in enumerate(steps):
        writer.step(number, tensors)
    writer.close()
    return Trace(folder)


def runs_of(tmp_path, program, combine="mean"):
    script, states = trained()
    reference = trace(tmp_path / "reference", script, combine=combine)
    return (
        FreeRuns(reference, reference, trace(tmp_path / "states", states), None),
        trace(tmp_path / "program", program),
        Join(Mapping([Pair(name, (name,), parse_transform("identity"), "by hand", SHAPE) for name in START]), {}, []),
    )


def causes_of(tmp_path, program, step, key, combine="mean"):
    runs, made, join = runs_of(tmp_path, program, combine)
    replayed = SimpleNamespace(join=join, part=SimpleNamespace(towers=2))
    parsed = parse_key(key)
    first = FirstDifference(Check("train", step, key, "different", 1.0, 1e-15), parsed.quantity, parsed.name, "", None)
    return [cause.name for cause in causes_of_training(replayed, runs, made, first)]


def times(factor):
    return [{name: factor * value for name, value in each.items()} for each in GRADIENTS]


def test_gradients_that_are_averaged_where_the_script_adds_them_up(tmp_path):
    assert causes_of(tmp_path, trained(times(0.5))[0], 0, "var/v", combine="sum")[0] == "sum_instead_of_mean"


def test_gradients_that_are_never_zeroed(tmp_path):
    kept = [GRADIENTS[0], *({n: a[n] + b[n] for n in a} for a, b in pairwise(GRADIENTS))]
    assert causes_of(tmp_path, trained(kept)[0], 1, "var/v")[0] == "stale_gradient"


@pytest.mark.parametrize(
    ("rates", "step", "cause"),
    [((0.1, 0.05, 0.05, 0.025), 1, "shifted_schedule"), ((0.1, 0.1, 0.1, 0.1), 2, "slow_schedule")],
)
def test_a_schedule_that_is_stepped_too_early_or_never(tmp_path, rates, step, cause):
    assert causes_of(tmp_path, trained(rates=rates)[0], step, "var/v")[0] == cause


def test_averages_that_move_too_early_or_by_another_decay(tmp_path):
    """Before the update the averages are the weights, so that in the first step they stay where they are."""
    assert causes_of(tmp_path / "early", trained(early=True)[0], 0, "ema/v")[0] == "stale_average"
    assert causes_of(tmp_path / "decay", trained(decay=0.8)[0], 0, "ema/v")[0] == "average_decay"


@pytest.mark.parametrize(("off", "verdict"), [(0.9, "same"), (1.1, "different"), (np.nan, "different")])
def test_an_average_is_as_near_as_its_decay_is_in_float32(tmp_path, off, verdict):
    script, _ = trained()
    way = np.linalg.norm(script[0]["var/v"] - START["v"])
    moved = script[0]["ema/v"].copy()
    moved[0, 0] += off * ROUNDING_OF_DECAY * way
    runs, made, join = runs_of(tmp_path, [{**script[0], "ema/v": moved}, *script[1:]])
    check = by_rounded_decay(join, runs, made, Check("train", 0, "ema/v", "different", 1.0, 1e-15))
    assert (check.verdict, check.note) == (verdict, AS_ROUNDED if verdict == "same" else "")


def test_only_averages_are_allowed_the_rounding_of_a_decay(tmp_path):
    runs, made, join = runs_of(tmp_path, trained()[0])
    assert by_rounded_decay(join, runs, made, Check("train", 0, "var/v", "different")).verdict == "different"


def test_statistics_are_those_of_the_rank_whose_shard_gives_them(tmp_path):
    batch = {"feed/x": np.arange(4.0).reshape(4, 1)}

    def left(values):
        return {"stat/mean": values.mean(axis=0)}

    def again(name, steps, batches, states):
        return trace(tmp_path / name, [left(batches[0]["feed/x"][:2])])

    first = FirstDifference(Check("train", 0, "stat/mean", "different", 1.0, 1e-15), "stat", "mean", "", None)
    join = Join(Mapping([Pair("mean", ("mean",), parse_transform("identity"), "by hand", (1,))]), {}, [])
    replayed = SimpleNamespace(join=join, part=SimpleNamespace(towers=2), batch=lambda step: batch, again=again)
    reference = trace(tmp_path / "reference", [left(batch["feed/x"][:2])])
    runs = FreeRuns(reference, reference, trace(tmp_path / "states", [{}]), None)
    for name, values, causes in (
        ("last", batch["feed/x"][2:], ["statistics_of_another_tower"]),
        ("neither", batch["feed/x"], []),
    ):
        made = trace(tmp_path / name, [left(values)])
        assert [cause.name for cause in causes_of_training(replayed, runs, made, first)] == causes
