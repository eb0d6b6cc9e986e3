"""What holds of every side of a comparison: live TensorFlow, a golden trace, the torch side; and of a recorded script."""

from pathlib import Path

import numpy as np
import pytest

from parity.case import load_case
from parity.experiment import keep_golden, run_case
from parity.experiment.replay.script import Part
from parity.experiment.sides.golden_side import GoldenSide
from parity.experiment.sides.recorded_side import RecordedSide
from parity.experiment.sides.tensorflow_side import TensorFlowSide
from parity.experiment.sides.torch_side import TorchSide
from parity.experiment.spec import FORWARD, Capability, RunSpec, silent
from parity.mapping.states import read_all
from parity.trace import Perturbation, Trace, perturb

SQUARE = Path(__file__).parents[1] / "cases" / "square"
QUANTITIES = ("loss", "grad", "var")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, tf2_sides):
    folder = tmp_path_factory.mktemp("conform")
    case = load_case(SQUARE)
    assert run_case(case, tf2_sides, out=folder / "run").verdict == "same"
    keep_golden(case, folder / "run", folder / "golden")
    return folder


# A promise is tested of the sides that make it; what another does instead is a test of its own.
EVERY_SIDE = pytest.mark.parametrize("side", ["live", "golden", "torch"], indirect=True)
SIDES_THAT_RERUN = pytest.mark.parametrize("side", ["live", "torch"], indirect=True)


@pytest.fixture
def side(request, recorded, tf2_sides, tmp_path):
    case = load_case(SQUARE)
    if request.param == "live":
        return TensorFlowSide(case, tf2_sides, tmp_path / "tf", silent)
    if request.param == "golden":
        return GoldenSide(recorded / "golden", case)
    return TorchSide(case, tf2_sides, tmp_path / "torch", silent)


def spec(recorded: Path, side) -> RunSpec:
    who = "torch" if isinstance(side, TorchSide) else "tf"
    run = recorded / "run"
    folders = (run / "feeds" / who, run / "start" / who, run / "states" / who)
    return RunSpec("float64", "float64", *folders, QUANTITIES, list(range(load_case(SQUARE).steps)))


def inputs_of(side, out: Path):
    return () if isinstance(side, TorchSide) else (side.batches(out).result(),)


@EVERY_SIDE
def test_a_run_holds_the_steps_and_quantities_that_its_spec_names_and_is_what_was_recorded(side, recorded, tmp_path):
    prepared = side.prepare("float64", *inputs_of(side, tmp_path / "feeds")).result()
    assert prepared["variables"] and prepared["facts"]
    asked = spec(recorded, side)
    trace = side.run(asked).result()
    assert trace.step_numbers == list(asked.steps)
    known = Trace(recorded / "run" / ("torch" if isinstance(side, TorchSide) else "tf") / "float64")
    for step in asked.steps:
        found, wanted = read_all(trace.step(step)), read_all(known.step(step))
        assert {name.partition("/")[0] for name in found} >= set(QUANTITIES)
        for name in found:
            assert np.array_equal(found[name], wanted[name]), (step, name)


@SIDES_THAT_RERUN
def test_a_forward_pass_is_of_the_step_and_tower_that_are_requested_and_its_gradients_are_of_the_same_ops(
    side, recorded, tmp_path
):
    side.prepare("float64", *inputs_of(side, tmp_path / "feeds")).result()
    passed = side.forward(1, "1", spec(recorded, side)._replace(name=FORWARD))
    gradients = side.forward(1, "1", spec(recorded, side)._replace(name="backward"), gradients=True)
    assert (passed.step, passed.tower) == (gradients.step, gradients.tower) == (1, "1")
    assert passed.ops and [op[:6] for op in passed.ops] == [op[:6] for op in gradients.ops]
    places = range(len(passed.ops))
    both = [(passed.value(place), gradients.value(place)) for place in places]
    pairs = [(value, slope) for value, slope in both if value is not None and slope is not None]
    assert {value.shape for value, _ in pairs} >= {(6, 8)} and all(value.shape == slope.shape for value, slope in pairs)
    assert not any(np.array_equal(value, slope) for value, slope in pairs)


@pytest.mark.parametrize("side", ["live"], indirect=True)
def test_a_reference_that_runs_again_keeps_nothing(side, recorded, tmp_path):
    inputs = side.batches(tmp_path / "feeds").result()
    side.prepare("float64", inputs).result()
    assert Capability.RERUN in side.capabilities and side.kept("float64") is None
    again = side.run_with_statistics("first", inputs, spec(recorded, side)._replace(name="other"))
    assert again.step_numbers == list(range(load_case(SQUARE).steps))


@pytest.mark.parametrize("side", ["golden"], indirect=True)
def test_a_reference_that_cannot_run_again_says_so_and_answers_with_what_it_keeps_or_nothing(side, recorded, tmp_path):
    inputs = side.batches(tmp_path / "feeds").result()
    side.prepare("float64", inputs).result()
    asked = spec(recorded, side)
    assert Capability.RERUN not in side.capabilities
    assert side.forward(0, "0", asked._replace(name="backward"), gradients=True) is None
    assert side.run_with_statistics("first", inputs, asked._replace(name="other")) is None
    assert side.kept("float64") == recorded / "golden" / "runs" / "float64"
    assert side.kept("no-such-run") is None


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_recorded_script_answers_with_its_recording_and_in_float64_with_its_shadow(recorded, tmp_path, precision):
    case, run = load_case(SQUARE), recorded / "run" / "tf"
    trace = Trace(run / "float32")
    facts = {**trace.facts, "towers": case.towers, "combine": "mean", "optimizer": {"name": "GradientDescentOptimizer"}}
    part = Part("", trace, facts, list(range(case.steps)), None, set())
    found = RecordedSide(part, Trace(run / "float64"), tmp_path).run("again", precision)
    assert found.step_numbers == part.steps and found.facts["precision"] == precision
    for step in part.steps:
        known, answered = Trace(run / precision).step(step), read_all(found.step(step))
        assert {name.partition("/")[0] for name in answered} >= set(QUANTITIES)
        for name in answered:
            assert np.array_equal(answered[name], known.read(name)), (step, name)


MOVED = (
    Perturbation("sample_order", "feed", 5, 1, shards=2),
    Perturbation("ulp", "feed", 6, 1),
    Perturbation("ulp", "var", 7, 1),
)


@SIDES_THAT_RERUN
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_perturbed_run_starts_from_what_its_perturbations_make_of_batches_and_states(
    side, recorded, tmp_path, precision
):
    side.prepare(precision, *inputs_of(side, tmp_path / "feeds")).result()
    asked = spec(recorded, side)._replace(name="moved", precision=precision, quantities=("feed", "var"))
    free = asked._replace(follow=None, perturbations=MOVED)
    wanted = perturb(read_all(Trace(asked.start).init()), MOVED, 0, precision)
    found = read_all(side.run(free).result().init())
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted if name.startswith("var/"))
    assert any(not np.array_equal(found[name], Trace(asked.start).init().read(name)) for name in found)
    lockstep = side.run(free._replace(follow=asked.follow)).result()
    for step in asked.steps:
        batch = perturb(read_all(Trace(asked.feeds).step(step)), MOVED, step, precision)
        fed = lockstep.step(step)
        for name, value in batch.items():
            towers = [fed.read(f"feed/{tower}/{name[len('feed/') :]}") for tower in (0, 1)]
            np.testing.assert_array_equal(np.concatenate(towers), value)


def test_perturbed_runs_leave_their_traces_and_no_batches_or_states_of_their_own(recorded):
    left = {path.parent.name: path for path in (recorded / "run" / "tf").glob("*/trace.json")}
    assert {"replica-0", "ulp-0", "order-0"} <= set(left)
    for kind in ("feeds", "start", "states"):
        assert sorted(path.name for path in (recorded / "run" / kind).iterdir()) == ["tf", "torch"]
    assert not list((recorded / "run").glob("perturbed*"))
