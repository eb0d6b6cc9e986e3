"""A golden trace keeps what it takes to judge a port where rounding decides: beside ties, and empty gradients' updates."""

import shutil
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import keep_golden, run_case
from parity.experiment.rejudge.ill_conditioned import ZERO_GRADIENT_NOTE as EMPTY
from parity.experiment.rejudge.non_differentiable import NON_DIFFERENTIABLE_NOTE as KINK

CASES = Path(__file__).parents[1] / "cases"
BIAS = "var/bias"
NUDGED = """

from torch_ddp.like_tf import Adam


def optimizer(model):
    made = Adam(model.parameters(), lr=1e-3)
    made.register_step_post_hook(lambda *_: model.bias.data.add_(1e-4))
    return made
"""


@pytest.fixture(scope="module")
def blessed(tmp_path_factory, tf2_sides):
    """Returns a function that blesses a case with a text of its port changed, once; returns its folder."""
    known = {}

    def bless(name, old="", new=""):
        if name not in known:
            folder = tmp_path_factory.mktemp(name) / name
            shutil.copytree(CASES / name, folder)
            change(folder, old, new)
            case, recorded = load_case(folder), folder.parent / "recorded"
            assert run_case(case, tf2_sides, out=recorded, blessing=True).verdict == "same"
            keep_golden(case, recorded, folder / "golden")
            known[name] = folder
        return known[name]

    return bless


@pytest.fixture
def checked(blessed, tmp_path, tf2_sides):
    """Returns a function that runs a copy of a blessed case, a text of its first port changed, against its golden trace."""

    def check(folder, old="", new="", without=(), **torch):
        copy = Path(shutil.copytree(folder, tmp_path / "copy"))
        original = (CASES / folder.name / "model_torch.py").read_text()
        (copy / "model_torch.py").write_text(original)
        change(copy, old, new)
        for name in without:
            shutil.rmtree(copy / "golden" / "runs" / name)
        case = load_case(copy)
        case = case.model_copy(update={"torch": case.torch.model_copy(update=torch)})
        return run_case(case, tf2_sides, levels=("function",), golden=copy / "golden")

    return check


def change(folder, old, new):
    port = folder / "model_torch.py"
    assert old in port.read_text()
    port.write_text(port.read_text().replace(old, new) if old else port.read_text() + new)


def runs(folder):
    return {path.name for path in (folder / "golden" / "runs").iterdir()}


def test_a_port_that_breaks_a_tie_otherwise_than_the_blessed_one_is_the_same(blessed, checked):
    folder = blessed("tied", "one >= other", "one > other")
    assert {"beside", "free-beside", "inputs-beside", "free-inputs-beside", "empty", "forward"} <= runs(folder)
    assert not {"beside-back", "inputs-beside-back"} & runs(folder)
    result = checked(folder)
    assert result.verdict == "same", result.first_difference
    assert ("lockstep", 0) in {
        (check.run, check.step) for check in result.levels["function"].checks if check.note == KINK
    }


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("torch.where(one >= other, one, other)", "(one + other) / 2", "act/0/larger"),
        (".square().mean()", ".square().mean() * 1.0001", "loss/0"),
    ],
)
def test_a_bug_beside_a_tie_is_different_from_the_golden_trace(blessed, checked, old, new, first):
    result = checked(blessed("tied", "one >= other", "one > other"), old, new)
    assert (result.verdict, result.first_difference.check.key) == ("different", first)


def test_a_golden_trace_of_before_judges_as_it_did_and_the_report_says_so(blessed, checked):
    without = ("beside", "free-beside", "inputs-beside", "free-inputs-beside", "empty")
    result = checked(blessed("tied", "one >= other", "one > other"), without=without)
    assert result.verdict == "different"
    (note,) = [note for note in result.notes if "a right port may be called different" in note]
    assert note.endswith("Bless the case again.")


def test_an_update_by_an_empty_gradient_is_judged_by_what_was_measured_when_it_was_blessed(blessed, checked):
    folder = blessed("biased")
    assert "beside" not in runs(folder)
    result = checked(folder)
    assert result.verdict == "same", result.first_difference
    assert [check.key for check in result.levels["function"].checks if check.note == EMPTY] == [BIAS]


def test_a_bias_that_moves_by_itself_is_different_from_the_golden_trace(blessed, checked):
    result = checked(blessed("biased"), new=NUDGED, optimizer="model_torch:optimizer")
    assert (result.verdict, result.first_difference.check.key) == ("different", BIAS)
