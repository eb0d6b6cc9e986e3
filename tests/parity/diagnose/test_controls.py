"""A cause that rests on an intervention has a control, a factor of 1 is none, and a cause says what it explains."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.made_steps import causes_between, trace
from support.tiny_case import BREAK, write_case

from parity.case import load_case
from parity.diagnose import Evidence, find_causes
from parity.diagnose.agreement import rounds_to_one, told_factor
from parity.diagnose.interventions.control import of_the_repetition
from parity.diagnose.interventions.probes import Bench, ignored_input
from parity.diagnose.interventions.protocol import Change
from parity.diagnose.interventions.search import STALE, undone
from parity.experiment import run_case
from parity.judge import Cause, Check, FirstDifference, Join, Level, Result
from parity.judge.result import Explained
from parity.mapping import Mapping, Pair, parse_transform
from parity.report import as_json
from parity.report.view import headings

SCALED = Change("input_scale", "scaled", "fix", "with x times 2", batch=lambda batch: {"feed/x": 2 * batch["feed/x"]})
X = {0: np.array([1.0, 2.0, 4.0]), 1: np.array([3.0, 5.0, 9.0])}


class Port:
    """Runs a made port on batches, one call after the other, as `Repeats` asks.

    Args:
      output: what a call gives, of its batch, the one before and the number of the call.
    """

    def __init__(self, output):
        self.output, self.calls, self.last, self.seed = output, 0, X[0], None

    def call(self, batch):
        self.calls += 1
        found = self.output(batch, self)
        self.last = batch
        return found

    def batch(self, step):
        return {"feed/x": X[step]}

    def state(self, step):
        return {}

    def repeat(self, step, batch, state, twice=False, *, ahead=None):
        given = [change(self.batch(step))["feed/x"] for change in ([ahead or batch] if twice else []) + [batch]]
        return self.traced([self.call(each) for each in given][-1])

    def repeat_seeded(self, step, seed):
        self.seed = np.random.RandomState(seed)
        return self.traced(self.call(X[step]))

    def traced(self, value):
        return SimpleNamespace(step_numbers=[1], step=lambda number: {"loss/0": value})


class Held(dict):
    def read(self, name):
        return self[name]

    def names(self, *quantities):
        return [name for name in self if not quantities or name.partition("/")[0] in quantities]


def bench_of(output):
    """Returns the bench of a port that should give its batch, recorded at step 1, after step 0."""
    port = Port(output)
    got = [port.call(X[step]) for step in (0, 1)][1]
    check = Check("lockstep", 1, "loss/0", "different", 1.0, 1e-12)
    join = SimpleNamespace(read=lambda key, file: file["loss/0"])
    sides = [SimpleNamespace(step=lambda n, v=v: Held({"loss/0": v}), step_numbers=[0, 1]) for v in (X[1], got)]
    return Bench(FirstDifference(check, "loss", "", "0", None), port, join, *sides)


def every(number, wrong):
    return lambda batch, port: wrong(batch) if port.calls % number == 2 % number else batch


def drawn(batch, port):
    if port.seed is None:
        port.seed = np.random.RandomState(port.calls)
    found, port.seed = batch + port.seed.rand(3), np.random.RandomState(port.seed.randint(1000))
    return found


def test_a_port_that_keeps_the_batch_before_is_told_by_feeding_it_twice():
    bench = bench_of(lambda batch, port: port.last)
    assert of_the_repetition(bench) is None
    cause = undone(bench, STALE)
    assert (cause.name, cause.explains) == ("stale_batch", Explained(1, "loss/0", 1.0))


def test_a_batch_before_of_another_size_is_told_too(monkeypatch):
    monkeypatch.setitem(X, 0, np.array([1.0, 2.0]))
    monkeypatch.setitem(X, 2, np.array([7.0, 1.0, 6.0]))
    bench = bench_of(lambda batch, port: port.last)
    assert of_the_repetition(bench) is None
    bench.reference.step_numbers.append(2)
    assert undone(bench, STALE).name == "stale_batch"


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("wrong", [lambda batch: batch * np.nan, lambda batch: batch + 1.0], ids=["nan", "one more"])
def test_a_port_that_is_wrong_now_and_then_is_no_stale_one(number, wrong):
    bench = bench_of(every(number, wrong))
    assert undone(bench, STALE) is None
    assert of_the_repetition(bench_of(every(number, wrong))).name == "not_repeatable"


def test_a_draw_is_told_by_the_seed():
    cause = of_the_repetition(bench_of(drawn))
    assert cause.name == "random_draw" and "after the same random seed it is the same" in cause.evidence


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda batch: batch * 3, "2 of it apart"),
        (lambda batch: batch * np.nan, "once finite and once not"),
    ],
)
def test_how_far_two_runs_of_one_step_are_apart_is_told(wrong, words):
    cause = of_the_repetition(bench_of(lambda batch, port: wrong(batch) if port.calls % 3 == 0 else batch))
    assert cause.name == "not_repeatable" and f"when the step is made once more, {words}, after" in cause.evidence
    assert "loss/0" in cause.evidence


def test_a_difference_of_rounding_between_two_runs_is_none():
    for off, same in ((0.9e-12, True), (1.2e-12, False)):
        noisy = bench_of(lambda batch, port, off=off: batch * (1 + off * (port.calls % 3 == 0)))
        assert (of_the_repetition(noisy) is None) == same


def test_a_draw_that_is_the_same_after_every_seed_is_no_draw():
    """The port counts its calls: the seed changes nothing."""
    cause = of_the_repetition(bench_of(lambda batch, port: batch + port.calls % 2))
    assert cause.name == "not_repeatable"
    first_alone = bench_of(lambda batch, port: batch + (port.calls == 2))
    assert of_the_repetition(first_alone) is None, "from then on it repeats itself"


def test_a_port_that_repeats_itself_is_experimented_with():
    bench = bench_of(lambda batch, port: batch / 2)
    assert of_the_repetition(bench) is None
    cause = undone(bench, SCALED)
    assert cause.name == "input_scale" and cause.explains.share == 1.0
    assert undone(bench, STALE) is None


def test_a_difference_that_goes_away_unchanged_is_undone_by_nothing():
    right_from_now_on = bench_of(lambda batch, port: batch + 1.0 if port.calls <= 2 else batch)
    assert undone(right_from_now_on, Change("a", "b", "c", "d")) is None


def test_a_change_that_takes_what_is_not_finite_away_undoes_the_difference():
    bench = bench_of(lambda batch, port: np.where(np.arange(3) == 1, np.nan, batch) if batch[0] == 3.0 else batch / 2)
    assert undone(bench, SCALED).name == "input_scale"


@pytest.mark.parametrize(("factor", "one"), [(1 + 4e-6, True), (1 - 4e-7, True), (1 + 6e-6, False), (0.999, False)])
def test_a_factor_that_rounds_to_one_is_never_named(factor, one):
    values = np.arange(1.0, 9.0)
    assert rounds_to_one(factor) is one
    assert (told_factor([(values, factor * values)]) is None) is one


def test_statistics_that_move_once_as_far_have_no_other_momentum(tmp_path):
    before, batch = np.arange(1.0, 7.0), np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0])
    for share, named in ((1 + 2e-7, False), (1.5, True)):
        moved = [before + part * 0.1 * (batch - before) for part in (1.0, share)]
        found = causes_between(
            tmp_path / str(named),
            "stat/m",
            *({"stat/m": each} for each in moved),
            {"stat/m": before},
            {"m": "statistic"},
        )
        assert ("batch_norm_momentum" in [name for name, _ in found]) is named


def nesterov_steps():
    """Returns states and both sides' steps of momentum from an empty slot: the reference looks ahead."""
    draw = np.random.RandomState(0)
    states, one, other = [], [], []
    for slot in (np.zeros(6), draw.randn(6)):
        weight, gradient = draw.randn(6), draw.randn(6)
        kept = 0.9 * slot + gradient
        states.append({"var/w": weight, "slot/momentum/w": slot})
        for side, move in ((one, gradient + 0.9 * kept), (other, kept)):
            side.append({"grad/w": gradient, "slot/momentum/w": kept, "var/w": weight - 0.1 * move})
    return states, one, other


@pytest.mark.parametrize(("step", "names"), [(0, []), (1, ["nesterov"])])
def test_a_lost_look_ahead_is_no_learning_rate(tmp_path, step, names):
    made = nesterov_steps()
    join = Join(Mapping([Pair("w", ("w",), parse_transform("identity"), "", (6,))]), {}, ["momentum"])
    states, one, other = (trace(tmp_path / str(n), steps, {"w": "weight"}, {}) for n, steps in enumerate(made))
    check = Check("lockstep", step, "var/w", "different", 1.0, 1e-15)
    found = find_causes(FirstDifference(check, "var", "w", "", None), Evidence(join, one, other, states, 2))
    assert [cause.name for cause in found] == names
    assert all(cause.explains[:2] == (step, "var/w") for cause in found)


def test_causes_of_other_differences_are_shown_as_such():
    check = Check("lockstep", 0, "loss/0", "different", 1.0, 1e-9)
    first = FirstDifference(check, "loss", "", "0", None)
    own = Cause("a", "the loss", "seen", "mend", Explained(0, "loss/0", 0.99995))
    behind = Cause("b", "the clip", "seen", "mend", Explained(1, "clip/w"))
    other = Cause("c", "the sum", "seen", "mend", Explained(0, "loss/0", 1.0))
    assert [heading for heading, _ in headings([own, behind, other], first)] == [
        "Cause",
        "Or",
        "Further, of clip/w at step 1",
    ]
    assert [heading for heading, _ in headings([behind], first)] == ["Further, of clip/w at step 1"]
    assert own.explains.sentence == "99.995% of loss/0 at step 0"
    assert other.explains.sentence == "all of loss/0 at step 0"
    assert behind.explains.sentence == "clip/w at step 1; how much of it was not measured"
    level = Level("function", "different", "", [check], first, [own, behind])
    told = as_json(Result({"function": level}, {}, {}))["causes"]
    assert told[0]["explains"] == {"step": 0, "key": "loss/0", "share": 0.99995}
    assert told[1]["explains"] == {"step": 1, "key": "clip/w", "share": None}


NOISE = "import torch\n    return (model(x + 0.1 * torch.randn_like(x)) - y).square().mean()"


def test_a_draw_of_the_port_is_named_and_is_no_lower_precision(tf2_sides, tmp_path):
    result = run_case(load_case(write_case(tmp_path / "tiny", torch=f"{BREAK} -> {NOISE}")), tf2_sides)
    assert result.verdict == "different"
    assert [cause.name for cause in result.causes] == ["random_draw"]
    assert "less than float32" not in result.levels["float32"].reason


@pytest.mark.slow  # on arrays above: a port that is wrong now and then
def test_nan_in_every_third_call_is_no_stale_batch(tf2_sides, tmp_path):
    nan = "if CALLS % 3 == 0 and dist.get_rank() == 1: return (model(x) - y).mean() * float('nan')"
    result = run_case(load_case(write_case(tmp_path / "tiny", torch=f"{BREAK} -> {nan}")), tf2_sides, ("function",))
    names = [cause.name for cause in result.causes]
    assert names and set(names) <= {"not_repeatable", "not_finite"}


@pytest.mark.parametrize(
    ("quantity", "elsewhere", "named"),
    [("loss", False, "input_ignored"), ("tower_grad", False, None), ("loss", True, None)],
)
def test_an_input_is_ignored_where_the_loss_shows_it_and_no_other_output_moves_with_it(quantity, elsewhere, named):
    bench = bench_of(lambda batch, port: np.ones(3))
    repeat = bench.recorder.repeat

    def with_another_output(step, change, *others, **settings):
        traced = repeat(step, change, *others, **settings)
        file = traced.step(traced.step_numbers[-1])
        moved = {"act/0/other": change(bench.recorder.batch(step))["feed/x"]} if elsewhere else {}
        return SimpleNamespace(step=lambda number: Held({**file, **moved}), step_numbers=traced.step_numbers)

    bench.recorder.repeat = with_another_output
    bench.first.__dict__["quantity"] = quantity
    bench.recorder.reference_batch = bench.recorder.batch
    bench.recorder.repeat_reference = lambda step, updates, batch: SimpleNamespace(
        step=lambda number: Held({"loss/0": batch(bench.recorder.batch(1))["feed/x"]})
    )
    cause = ignored_input(bench)
    assert (cause.name if cause else None) == named


@pytest.mark.parametrize("names", ["abcdefgh", "hgfedcba"])
def test_of_several_inputs_that_are_ignored_the_first_of_the_batch_is_named_in_every_run(names):
    bench = bench_of(lambda batch, port: np.ones(3))
    feeds = {f"feed/{name}": X[1] for name in names}
    bench.recorder.batch = bench.recorder.reference_batch = lambda step: {**feeds}
    bench.recorder.repeat = lambda *arguments, **settings: SimpleNamespace(
        step=lambda number: Held({"loss/0": bench.got}), step_numbers=[1]
    )
    bench.recorder.repeat_reference = lambda step, updates, batch: SimpleNamespace(
        step=lambda number: Held({"loss/0": sum(each * scale for scale, each in enumerate(batch(feeds).values(), 2))})
    )
    assert ignored_input(bench).title == f"the port does not use {names[0]}"
