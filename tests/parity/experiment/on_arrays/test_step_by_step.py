"""A case that is judged step by step is judged as one whose runs are kept: the same checks, and the same words."""

import dataclasses

import pytest
from support.made_sides import CASE, KERNEL, MEAN, Habits, made_case, made_sides

from parity.experiment import run_case
from parity.experiment.stepwise import on_demand
from parity.experiment.stepwise.sizes import Budget
from parity.trace import Trace

ADAM = CASE.replace('"momentum"\nlearning_rate = 0.1\nmomentum = 0.9', '"adam"\nlearning_rate = 0.1')
OWN = CASE.replace("[torch]", '[torch]\noptimizer = "model_torch:optimizer"')
PLAIN = Habits(backwards=True)
KINKED = Habits(columns=True)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def judged(folder, budget, reference=None, port=None, text=CASE, out=True, levels=("function", "float32"), **more):
    sides = made_sides(folder, reference, port)
    kept = folder / "out" if out else None
    return sides, run_case(
        made_case(folder / "case", text), sides, levels, kept, budget=budget and Budget(budget), **more
    )


def plain(result):
    """What of a result a report shows."""
    found = dataclasses.asdict(result)
    return {name: value for name, value in found.items() if name not in ("reference", "candidate")}


@pytest.mark.parametrize(
    ("reference", "port", "text"),
    [
        (None, PLAIN, CASE),
        (None, PLAIN, ADAM),
        (None, Habits(backwards=True, double_rate=True), OWN),
        (KINKED, Habits(columns=True, last_of_equal=True), CASE),
        slow(Habits(evaluates=False), Habits(backwards=True, evaluates=False), CASE),
        slow(None, Habits(backwards=True, rate=1.001), CASE),
        slow(None, Habits(backwards=True, loss=2.0), CASE),
        slow(None, Habits(backwards=True, decay=0.99), CASE),
        slow(None, Habits(backwards=True, nudge=1e-9), CASE),
        slow(None, Habits(backwards=True, blur=1e-2), CASE),
        slow(None, Habits(backwards=True, hidden=("act",)), CASE),
        slow(None, Habits(backwards=True, survivor=1), CASE),
        slow(KINKED, Habits(columns=True, last_of_equal=True, rate=1.01), CASE),
        slow(Habits(centred=True), Habits(centred=True, backwards=True), ADAM),
    ],
)
def test_every_check_note_and_cause_is_that_of_runs_that_are_kept(tmp_path, reference, port, text):
    _, kept = judged(tmp_path / "kept", None, reference, port, text)
    sides, stepwise = judged(tmp_path / "stepwise", 1, reference, port, text)
    assert "float32-0" in sides.tf.runs  # it was made a step at a time
    assert plain(stepwise) == plain(kept)


@pytest.mark.parametrize("levels", [("function",), ("float32",)])
def test_levels_are_the_ones_asked_for(tmp_path, levels):
    _, kept = judged(tmp_path / "kept", None, None, PLAIN, levels=levels)
    _, stepwise = judged(tmp_path / "stepwise", 1, None, PLAIN, levels=levels)
    assert plain(stepwise) == plain(kept)
    assert [name for name, level in stepwise.levels.items() if level.verdict == "same"] == [
        name for name in ("function", "float32") if name in kept.levels and kept.levels[name].verdict == "same"
    ]


def test_what_does_not_repeat_itself_is_measured_by_two_more_runs(tmp_path):
    _, result = judged(tmp_path, 1, Habits(wandering=0.01), PLAIN)
    assert [(each.side, each.comparable) for each in result.repeats] == [("reference", False), ("candidate", True)]
    assert result.levels["function"].verdict == "incomparable"


def test_out_leaves_the_references_run_and_nothing_else_of_size(tmp_path):
    judged(tmp_path / "kept", None, None, PLAIN)
    judged(tmp_path / "stepwise", 1, None, PLAIN)
    once, again = (Trace(tmp_path / name / "out" / "tf" / "float32") for name in ("kept", "stepwise"))
    assert once.step_numbers == again.step_numbers == [0, 1, 2, 3]
    assert once.facts == again.facts and once.variables == again.variables
    for one, other in [(once.init(), again.init()), *((once.step(n), again.step(n)) for n in range(4))]:
        assert set(one.names()) == set(other.names())
        assert all((one.read(name) == other.read(name)).all() for name in one.names())
    folders = {path.parent.name for path in (tmp_path / "stepwise" / "out").rglob("step-*")}
    assert folders == {"float32", "replica-0", "replica-1", "replica-2", "tf", "torch"}


@pytest.mark.parametrize("change", [{"levels": ("function", "trajectory")}, {"reference": "races"}])
def test_what_needs_whole_runs_keeps_them(tmp_path, change):
    if change.pop("reference", ""):
        change["reference"] = Habits(facts=(("racing_statistics", [MEAN]),))
    sides, _ = judged(tmp_path, 1, port=PLAIN, out=False, **change)
    assert "float32" in sides.tf.runs and "float32-0" not in sides.tf.runs


def test_a_case_within_the_budget_keeps_its_runs(tmp_path):
    sides, _ = judged(tmp_path / "within", 10**6, None, PLAIN)
    assert "float64" in sides.torch.runs
    # 8 weights, 3 statistics, momentum: some 2,700 elements of all runs in 4 steps.
    sides, _ = judged(tmp_path / "beyond", 10**3, None, PLAIN)
    assert "float64" not in sides.torch.runs


@pytest.mark.parametrize("port", [Habits(backwards=True, loss=2.0), Habits(backwards=True, nudge=1e-9)])
def test_what_went_is_made_again_when_it_is_read(tmp_path, monkeypatch, port):
    monkeypatch.setattr(on_demand, "SMALL", 0)  # as if every tensor were large
    _, kept = judged(tmp_path / "kept", None, None, port)
    sides, stepwise = judged(tmp_path / "stepwise", 1, None, port)
    assert plain(stepwise) == plain(kept)
    asked = sides.tf.runs["float64-once-more"]
    # Of one step alone something is written, though all before it are made.
    assert asked["steps"] == list(range(asked["written"][0] + 1))
    held = Trace(tmp_path / "stepwise" / "out" / "tf" / "float64-once-more")
    assert held.step_numbers == asked["written"] and f"grad/{KERNEL}" in held.step(held.step_numbers[0])


@pytest.mark.parametrize("budget", [None, 1])
@pytest.mark.parametrize(("port", "verdict"), [(PLAIN, "same"), (Habits(backwards=True, rate=1.001), "different")])
def test_a_quick_run_decides_level_1_by_lockstep_alone(tmp_path, budget, port, verdict):
    sides, result = judged(tmp_path, budget, None, port, out=False, levels=("function",), quick=True)
    assert result.verdict == verdict
    runs = {name.partition("-")[0] for side in (sides.tf, sides.torch) for name in side.runs}
    assert not runs & {"free", "replica", "again", "ulp"}
    assert {check.run for check in result.levels["function"].checks} == {"fresh", "init", "lockstep"}
    assert any("--quick" in note for note in result.notes) and result.repeats == []


def test_a_strict_budget_makes_fewer_steps_and_says_so(tmp_path):
    sides, _ = made_sides(tmp_path, None, PLAIN), None
    case = made_case(tmp_path / "case", CASE.replace("steps = 4", "steps = 40"))
    result = run_case(case, sides, ("function",), None, budget=Budget(6000, strict=True))
    (note,) = [note for note in result.notes if "--budget" in note]
    made = max(check.step for check in result.levels["function"].checks) + 1
    assert note.startswith(f"{made} of 40 steps were run, for it would take") and 1 <= made < 40
    assert result.verdict == "same"


def test_what_a_mapping_was_decided_by_goes_before_the_first_step(tmp_path):
    case, sides = made_case(tmp_path / "case"), made_sides(tmp_path, None, PLAIN)
    left = [tmp_path / "out" / name for name in ("start/mapping", "tf/mapping", "torch/mapping-torch")]
    for folder in left:
        folder.mkdir(parents=True)
    assert run_case(case, sides, ("function",), tmp_path / "out", budget=Budget(1), quick=True).verdict == "same"
    assert not any(folder.exists() for folder in left)
