"""What a replayed port's free run starts from, and what its optimizer counts before its first step."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.replay.free_run import counts_otherwise, start_of, told_of_shadow, without_averages
from parity.experiment.replay.reference import write_reference
from parity.experiment.replay.script import Part
from parity.judge.imprecise_ops import INEXACT_FACT
from parity.trace import SHADOW_FILE, Trace, TraceWriter

STATE = {
    name: np.array(1.0)
    for name in ("var/w", "stat/m", "ema/w", "slot/m/w", "state/global_step", "section/g/ema/w", "section/g/slot/m/w")
}


def step(folder, **counters):
    writer = TraceWriter(folder, {"package": "made"})
    writer.init({})
    writer.step(3, {"var/w": np.array(1.0), **{f"state/{name}": value for name, value in counters.items()}})
    writer.close()
    return Trace(folder)


def test_where_the_training_begins_slots_and_counters_are_the_ports_own():
    assert set(start_of(STATE, True)) == {"var/w", "stat/m", "ema/w", "section/g/ema/w"}
    assert start_of(STATE, False) == STATE
    assert set(without_averages(STATE)) == set(STATE) - {"ema/w", "section/g/ema/w"}


def part_of(folder, steps, section, use=""):
    """The part of one of two optimizers, of a script in whose steps the gradients of some variables are recorded."""
    variables = {name: {"shape": [1], "dtype": "float32", "kind": "weight"} for name in "vw"}
    statistics = {name: {"shape": [1], "dtype": "float32", "kind": "statistic", "use": use} for name in "mn"}
    writer = TraceWriter(folder, {"package": "made"}, {}, {**variables, **statistics})
    writer.init({"stat/m": np.zeros(1, np.float32), "stat/n": np.zeros(1, np.float32)})
    for number, (which, names) in enumerate(steps):
        grads = {f"section/{which}/grad/{name}": np.ones(1, np.float32) for name in names}
        moved = {"stat/m": np.zeros(1, np.float32), "stat/n": np.full(1, number, np.float32)}
        writer.step(number, {**grads, **moved})
    writer.close()
    own = [number for number, (which, _) in enumerate(steps) if which == section]
    return Part(section, Trace(folder), {}, own, frozenset("vw"), set())


def test_what_another_optimizer_has_trained_meanwhile_is_known(tmp_path):
    part = part_of(tmp_path, [("a", "vw"), ("a", "vw"), ("b", "w"), ("b", "w"), ("a", "vw")], "a")
    assert [part.moved_by_others(number) for number in part.steps] == [set(), set(), {"w"}]


@pytest.mark.parametrize(("use", "idle"), [("", {"m"}), ("FusedBatchNormV3", set())])
def test_a_statistic_that_every_step_leaves_as_it_was_is_unmoved_and_idle_where_nothing_reads_it(tmp_path, use, idle):
    part = part_of(tmp_path, [("a", "w"), ("a", "w")], "a", use)
    assert part.unmoved() == {"m"}
    assert part.idle() == idle


def test_what_a_shadow_says_of_rough_ops_stays_with_what_is_judged(tmp_path):
    part = part_of(tmp_path / "recorded", [("a", "w")], "a")
    rough = {"places": ["tower_0/CTCLoss"], "outputs": [""]}
    for name, facts in (("rough", {INEXACT_FACT: rough}), ("exact", {})):
        writer = TraceWriter(tmp_path / name, {"package": "made"}, {**facts, "precision": "float64"})
        writer.init({})
        writer.step(0, {})
        writer.close()
        left = write_reference(part, Trace(tmp_path / name), tmp_path / f"{name}-left")
        assert left.facts.get(INEXACT_FACT) == facts.get(INEXACT_FACT)


COUNTED = "{} before the candidate's first step, {} before the script's"


@pytest.mark.parametrize(
    ("one", "other", "evidence"),
    [
        ({"global_step": np.array(2)}, {"global_step": np.array(2.0, np.float32)}, None),
        ({"global_step": np.array(2)}, {"global_step": np.array(0)}, "global_step is " + COUNTED.format(0, 2)),
        ({"beta1_power": np.array(0.9)}, {"beta1_power": np.array(np.float32(0.9))}, None),
        (
            {"beta1_power": np.array(0.9)},
            {"beta1_power": np.array(0.81)},
            "beta1_power is " + COUNTED.format(0.81, 0.9),
        ),
        ({"learning_rate": np.array(0.5)}, {"learning_rate": np.array(0.1)}, None),
        (
            {"learning_rate": np.array(0.5), "global_step": np.array(1)},
            {"learning_rate": np.array(0.1), "global_step": np.array(7)},
            "global_step is " + COUNTED.format(7, 1),
        ),
        ({"own": np.array(1), "global_step": np.array(1)}, {"global_step": np.array(1)}, None),
    ],
)
def test_an_optimizer_that_counts_otherwise_is_named_with_both_counts(tmp_path, one, other, evidence):
    runs = SimpleNamespace(reference=step(tmp_path / "one", **one), candidate=step(tmp_path / "other", **other))
    causes = counts_otherwise(SimpleNamespace(steps=[3, 4]), runs)
    assert [cause.name for cause in causes] == (["step_count"] if evidence else [])
    assert [cause.evidence for cause in causes] == ([evidence] if evidence else [])


@pytest.mark.parametrize(
    ("text", "told"), [('{"free": "too long"}', "too long"), ('{"other": "x"}', ""), ("[", ""), (None, "")]
)
def test_why_a_shadow_has_no_free_run_is_what_the_file_beside_it_says(tmp_path, text, told):
    if text is not None:
        (tmp_path / SHADOW_FILE).write_text(text)
    part = SimpleNamespace(trace=SimpleNamespace(directory=str(tmp_path)))
    assert told_of_shadow(part, "free") == told
