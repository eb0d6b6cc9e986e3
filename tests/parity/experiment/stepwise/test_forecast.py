"""What a run will take, predicted from the number of weights and from timed steps."""

from types import SimpleNamespace

from support.made_sides import made_case, made_sides

from parity.experiment.stepwise.forecast import Forecast, forecast
from parity.experiment.stepwise.lockstep import remaining_seconds
from parity.experiment.stepwise.sizes import Sizes, all_runs, step_by_step


def test_a_step_of_each_side_is_made_twice_and_nothing_else(tmp_path):
    sides = made_sides(tmp_path, None, None)
    found = forecast(made_case(tmp_path / "case"), sides)
    for side in (sides.tf, sides.torch):
        runs = [arguments for request, arguments in side.asked if request == "run"]
        assert [(each["steps"], each["follow"]) for each in runs] == [([0], None)] * 2
    # A kernel of 3 by 2 and a bias, momentum, a moving mean; two towers' gradients and the combined ones.
    sizes = Sizes(weights=8, state=8 + 8 + 3, step=8 + 8 + 3 + 3 * 8)
    assert found[:2] == (8, 4) and found.seconds > 0
    assert (found.kept, found.removed) == (all_runs(sizes, 4, float32=True), step_by_step(sizes, 4, keep=False))


def test_the_sentence_says_what_a_run_will_do_with_its_budget():
    found = Forecast(15_000_000, 3, 61.4, 41_040_000_000, 2_640_000_000)
    text = found.sentence(2 * 10**9)
    assert text.startswith("predicted: 15,000,000 weights, 3 steps, levels 1 and 2: about 61 s; on disk 41 GB if all")
    assert "2.64 GB step by step. It is judged step by step (--budget 2GB)" in text
    assert "It keeps its runs (--budget 50GB)" in found.sentence(50 * 10**9)


def test_what_is_to_go_is_predicted_from_the_first_step():
    stage = SimpleNamespace(playing=SimpleNamespace(steps=[0, 1, 2]), quick=True, draw_steps=[])
    assert remaining_seconds(stage, 6.0) == 12.0
    # A lockstep step is 3 parts: 3 free steps of 4 runs in float64 are 24, 3 repeated ones and 3 of 8 draws 27.
    full = SimpleNamespace(playing=stage.playing, quick=False, draw_steps=[0, 1, 2])
    assert remaining_seconds(full, 6.0) == 12.0 + 6.0 * (24 + 27) / 3
