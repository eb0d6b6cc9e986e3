"""Values that are not finite: named with step and tensor, taken for no tie, and no hypothesis stumbles over them."""

import numpy as np
import pytest
from support.made_steps import causes_between, trace
from support.tiny_case import BREAK, write_case

from parity.case import load_case
from parity.diagnose import Evidence, find_causes, find_further
from parity.diagnose.agreement import fit, least_squares
from parity.diagnose.detectors.forward import _fits
from parity.experiment import run_case
from parity.experiment.rejudge.non_differentiable import NON_DIFFERENTIABLE_NOTE, settle_kinks
from parity.judge import Check, FirstDifference, Join
from parity.judge.levels.float32 import judge_float32
from parity.judge.levels.function import Lockstep, judge_lockstep
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import Trace, TraceWriter, parse_key

RANDOM = np.random.default_rng(0)
KINDS = {"w": "weight", "b": "weight"}
SHAPES = {"w": (4, 3), "b": (3,)}
ADAM = {"optimizer": {"name": "adam", "learning_rate": 1e-3, "epsilon": 1e-8}}


def adam_step():
    """Returns the state before a step of Adam, and the step."""
    before, step = {"state/learning_rate": np.array(1e-3), "state/beta2_power": np.array(0.9)}, {}
    for tower in "01":
        step[f"loss/{tower}"] = np.array(RANDOM.random())
    for name, shape in SHAPES.items():
        gradients = [RANDOM.normal(size=shape) for _ in "01"]
        step.update({f"tower_grad/{tower}/{name}": value for tower, value in enumerate(gradients)})
        grad = step[f"grad/{name}"] = (gradients[0] + gradients[1]) / 2
        weight, m, v = RANDOM.normal(size=shape), RANDOM.normal(size=shape), RANDOM.random(shape)
        before.update({f"var/{name}": weight, f"slot/m/{name}": m, f"slot/v/{name}": v})
        step[f"slot/m/{name}"] = 0.9 * m + 0.1 * grad
        step[f"slot/v/{name}"] = 0.999 * v + 0.001 * grad**2
        step[f"var/{name}"] = weight - 1e-3 * step[f"slot/m/{name}"] / (np.sqrt(step[f"slot/v/{name}"]) + 1e-8)
    return before, step


def spoiled(step, key, value):
    changed = {**step, key: step[key].copy()}
    changed[key].reshape(-1)[0] = value
    return changed


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("key", sorted(adam_step()[1]))
@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_value_that_is_not_finite_is_named_with_its_step_and_tensor(tmp_path, side, key, value):
    before, step = adam_step()
    other = spoiled(step, key, value)
    pair = (other, step) if side == "reference" else (step, other)
    what = "not a number" if np.isnan(value) else "infinite"
    assert causes_between(tmp_path, key, *pair, before, KINDS, ADAM) == [
        ("not_finite", f"the {side}'s {key} is {what} at step 0")
    ]


def look_everywhere(evidence, texts, step):
    """Looks for the causes of every tensor of a step, as if it were the first that differs, and of what lies behind it."""
    checks = [Check("lockstep", number, text, "different", 1.0, 1e-15) for number in evidence.steps for text in texts]
    for text in texts:
        parsed = parse_key(text)
        check = Check("lockstep", step, text, "different", 1.0, 1e-15)
        first = FirstDifference(check, parsed.quantity, parsed.name, parsed.tower, None)
        find_further(first, find_causes(first, evidence), evidence, checks)


JOIN = Join(Mapping([Pair(n, (n,), parse_transform("identity"), "", s) for n, s in SHAPES.items()]), {}, ["m", "v"])


@pytest.mark.parametrize("key", ["grad/w", "slot/m/w", "slot/v/b", "tower_grad/1/b"])
def test_no_hypothesis_stumbles_over_what_else_is_not_finite(tmp_path, key):
    before, step = adam_step()
    other = {text: spoiled(step, text, np.nan)[text] if text >= key else value * 1.5 for text, value in step.items()}
    made = (("r", step), ("c", other), ("s", before))
    look_everywhere(Evidence(JOIN, *(trace(tmp_path / name, [each], KINDS, ADAM) for name, each in made), 2), step, 0)


@pytest.mark.parametrize("value", [np.nan, 1e308])
@pytest.mark.parametrize("key", ["act/0/pooled", "stat/mean", "loss/0"])
def test_no_value_that_is_not_finite_ends_a_search(tmp_path, key, value):
    before, step = adam_step()
    acts = {"act/0/pooled": np.abs(RANDOM.normal(size=(2, 6, 6, 3))) + 0.1, "act/0/logits": RANDOM.normal(size=(9, 4))}
    step = {**step, **acts, "stat/mean": RANDOM.random(4), "stat/variance": RANDOM.random(4)}
    before = {**before, "stat/mean": np.zeros(4), "stat/variance": np.ones(4)}
    kinds = {**KINDS, "mean": "statistic", "variance": "statistic"}
    shapes = {**SHAPES, "mean": (4,), "variance": (4,)}
    join = Join(Mapping([Pair(n, (n,), parse_transform("identity"), "", s) for n, s in shapes.items()]), {}, ["m", "v"])
    # Of one tensor alone: where the first difference is not finite itself, nothing else is asked.
    other = spoiled({text: each * 1.5 for text, each in step.items()}, key, value)
    for number, sides in enumerate([(step, other), (other, step)]):
        made = ((f"r{number}", sides[0]), (f"c{number}", sides[1]), (f"s{number}", before))
        traces = [trace(tmp_path / name, [each], kinds, ADAM) for name, each in made]
        with np.errstate(all="ignore"):
            look_everywhere(Evidence(join, *traces, 2), step, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
def test_no_line_is_laid_through_what_is_not_finite(value):
    one = RANDOM.random((8, 2)) + 0.1
    other = 2 * one
    other[0, 0] = value
    with np.errstate(all="ignore"):
        scales, _, _ = _fits(one, other)
        assert scales[1] == pytest.approx(2.0)
        assert _fits(other, one)[0][1] == pytest.approx(0.5)
        assert fit([[other[:, 0]]], [one[:, 0]]) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, 5e-324])
def test_columns_that_are_not_finite_once_scaled_have_no_nearest_combination(value):
    columns = np.array([[1.0, value], [2.0, 0.0], [3.0, 0.0]])
    assert least_squares(columns, np.array([1.0, 2.0, 3.0])) is None
    assert least_squares(columns[:, :1], np.array([2.0, 4.0, 6.0])) == pytest.approx([2.0])


def test_a_step_that_was_run_again_alone_is_asked_about_no_other(tmp_path):
    states, steps = zip(*(adam_step() for _ in range(3)), strict=True)
    writer = TraceWriter(tmp_path / "repeat", {}, {"precision": "float64"}, {})
    writer.init({})
    writer.step(1, {text: value * 1.5 for text, value in steps[1].items()})
    writer.close()
    reference, before = trace(tmp_path / "r", steps, KINDS, ADAM), trace(tmp_path / "s", states, KINDS, {})
    evidence = Evidence(JOIN, reference, Trace(tmp_path / "repeat"), before, 2)
    assert evidence.steps == [1]
    look_everywhere(evidence, steps[1], 1)


def lockstep(tmp_path, reference32, candidate32, candidate64):
    join = Join(Mapping([]), {}, [])
    one = {"loss/0": np.array(2.0)}
    made = {
        "reference32": {"loss/0": np.array(reference32, np.float32)},
        "reference64": one,
        "candidate32": {"loss/0": np.array(candidate32, np.float32)},
        "candidate64": {"loss/0": np.array(candidate64)},
        "states": {},
    }
    return join, Lockstep(**{name: trace(tmp_path / name, [step], {}, {}) for name, step in made.items()})


@pytest.mark.parametrize(
    ("reference32", "candidate32", "candidate64", "verdict"),
    [
        (2.0, np.nan, 2.0, "same"),  # level 2 says what float32 does
        (2.0, np.nan, 2.1, "different"),
        (np.inf, 2.0, 2.1, "different"),
        (np.inf, np.inf, 2.0, "same"),
        (np.inf, np.inf, 2.1, "incomparable"),  # what rounding does nobody knows
        (2.0, 2.0, np.nan, "different"),
    ],
)
def test_what_overflows_in_float32_neither_passes_nor_fails_in_float64(
    tmp_path, reference32, candidate32, candidate64, verdict
):
    [check] = judge_lockstep(*lockstep(tmp_path, reference32, candidate32, candidate64), [0])
    assert check.verdict == verdict and np.isfinite(check.allowed)


def test_float32_is_judged_beside_a_float64_run_that_is_not_finite(tmp_path):
    join, traces = lockstep(tmp_path, 2.0, 2.1, np.nan)
    [check] = judge_float32(join, traces, [], [0])
    assert check.verdict == "different" and np.isfinite(check.allowed)


class MadeBeside:
    """Answers as if the sides had run beside a kink: the same there, and at the kink whatever `once_more` says."""

    note = NON_DIFFERENTIABLE_NOTE

    def __init__(self, verdict):
        self.verdict = verdict

    def once_more(self):
        return [different._replace(verdict=self.verdict)]

    def alone(self, step):
        return [different._replace(verdict="same", difference=0.0)]

    def in_lockstep(self):
        return self.alone(0)

    def free(self, lockstep):
        return []


different = Check("lockstep", 0, "grad/w", "different", 1.0, 1e-15)


@pytest.mark.parametrize(
    ("check", "once_more", "verdict"),
    [
        (different, "different", "same"),
        (different, "same", "different"),  # a port that does not repeat itself is at no kink
        (different._replace(difference=np.inf, note="values that are not finite"), "different", "different"),
    ],
)
def test_a_kink_is_there_in_every_run_and_finite(check, once_more, verdict):
    [settled] = settle_kinks([check], [MadeBeside(once_more)])
    assert settled.verdict == verdict and (settled.note == NON_DIFFERENTIABLE_NOTE) == (verdict == "same")


def test_a_rank_that_makes_nan_in_every_third_call_is_different_and_placed(tf2_sides, tmp_path):
    nan = "if CALLS % 3 == 0 and dist.get_rank() == 1: return (model(x) - y).mean() * float('nan')"
    case = load_case(write_case(tmp_path / "tiny", torch=f"{BREAK} -> {nan}"))
    result = run_case(case, tf2_sides)
    assert (result.verdict, result.exit_code) == ("different", 1)
    first = result.first_difference
    assert (first.check.run, first.check.key, first.check.note) == (
        "lockstep",
        "loss/1",
        "values that are not finite in the candidate",
    )
