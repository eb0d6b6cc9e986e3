"""What keeps gradients from passing is named where all gradients are the reference's without it, and else not."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny_case import BREAK, write_case

from parity.case import load_case
from parity.diagnose.interventions.backward import with_cut
from parity.experiment import run_case
from parity.judge.result import Cause, Check, FirstDifference, Level
from parity.trace import parse_key
from parity.worker.failures import SideFailed

RIGHT = {"loss/0": np.array(2.0), "tower_grad/0/v": np.array([1.0, 2.0]), "tower_grad/0/w": np.array([3.0, 4.0])}
WRONG = {**RIGHT, "tower_grad/0/w": np.array([3.0, 1.0])}
CHECKS = [Check("lockstep", 0, key, "same", 0.0, 1e-13) for key in RIGHT]
FIRST = FirstDifference(Check("lockstep", 0, "tower_grad/0/w", "different", 3.0, 1e-13), "tower_grad", "w", "0", None)
LINE = ["model_torch.py", 7, "forward", "x = h.detach()", [["model_torch.py", 12, "loss", "return model(x)"]]]


class File(dict):
    names = dict.keys
    read = dict.__getitem__


class Run:
    def __init__(self, tensors, facts=None):
        self.tensors, self.facts = tensors, facts or {}

    def step(self, number):
        return File(self.tensors)


class Port:
    """Runs a step once more: with these places undone it gives these tensors, an error where there are none."""

    def __init__(self, results, kinds=None):
        self.results, self.runs = results, []
        places = {place for undone in results for place in undone}
        self.cuts = {
            place: {"kind": (kinds or {}).get(place, "detach"), "line": LINE, "module": "", "parameter": "", "calls": 1}
            for place in sorted(places)
        }

    def repeat_uncut(self, step, places):
        self.runs.append(tuple(places))
        found = self.results[tuple(places)]
        if found is None:
            raise SideFailed("RuntimeError", "in-place", "", "torch")
        return Run(found, {"gradient_cuts": self.cuts})


def named(port, known=(), first=FIRST, checks=CHECKS):
    join = SimpleNamespace(
        ordered=lambda names: [(parse_key(text), text) for text in names], read=lambda key, file: file.get(key.text)
    )
    join.read = lambda key, file: file.get("/".join(part for part in (key.quantity, key.tower, key.name) if part))
    level = Level("function", "different", "", checks, first, list(known))
    return with_cut(level, port, SimpleNamespace(reference=Run(RIGHT), join=join))


def test_the_call_without_which_all_gradients_come_out_is_named_with_its_line():
    level = named(Port({(): WRONG, ("a",): WRONG, ("b",): RIGHT}))
    [cause] = level.causes
    assert (cause.name, cause.title) == ("detached", "detach() keeps gradients from passing at model_torch.py:7")
    assert "all 2 gradients of the towers are the reference's" in cause.evidence
    assert cause.explains == (0, "tower_grad/0/w", 1.0)
    assert level.first_difference.module == ""
    assert level.first_difference.lines[1].text == "x = h.detach()"


def test_all_that_shows_it_is_told_with_where_it_is_and_how_far_gradients_were_off():
    port = Port({(): {**WRONG, "tower_grad/0/w": np.array([3.0, 4.0 + 3e-12])}, ("a",): WRONG, ("b",): RIGHT})
    for number, (module, parameter, where) in enumerate(
        (("net.body", "", ", in net.body"), ("", "net.fc.weight", ", in net.fc"), ("", "", ""))
    ):
        port.cuts["b"] = {**port.cuts["b"], "module": module, "parameter": parameter}
        level = named(port)
        told = f"the outputs of both sides are the same, their gradients part in the port{where}"
        assert level.first_difference.where == told, number
    [cause] = level.causes
    assert cause.evidence == (
        "with gradients let pass at model_torch.py:7 (x = h.detach()) all 2 gradients of the towers are the reference's, "
        "0 times what rounding allows at most, where tower_grad/0/w was 30 times; the losses stay the same"
    )
    lacking = {text: value for text, value in RIGHT.items() if text != "tower_grad/0/w"}
    [cause] = named(Port({(): lacking, ("a",): RIGHT})).causes
    assert "where tower_grad/0/w was not there; " in cause.evidence


@pytest.mark.parametrize("places", [12, 13])
def test_twelve_places_are_tried_by_themselves_and_then_all(places):
    names = [f"p{number:02}" for number in range(places)]
    port = Port({(): WRONG, **{(name,): WRONG for name in names}, tuple(names): RIGHT})
    assert [cause.name for cause in named(port).causes] == ["detached"]
    assert port.runs == [(), *((name,) for name in names[:12]), tuple(names)]


def test_a_gradient_without_a_tolerance_gets_the_least_there_is():
    checks = [each for each in CHECKS if each.key != "tower_grad/0/v"]
    for off, causes in ((0.5e-12, ["detached"]), (4e-12, [])):
        port = Port({(): WRONG, ("a",): {**RIGHT, "tower_grad/0/v": RIGHT["tower_grad/0/v"] * (1 + off)}})
        assert [cause.name for cause in named(port, checks=checks).causes] == causes


@pytest.mark.parametrize("other", [{"quantity": "grad"}, {"check": FIRST.check._replace(run="free")}])
def test_only_gradients_of_a_tower_in_lockstep_are_looked_at(other):
    port = Port({(): WRONG, ("a",): RIGHT})
    assert named(port, first=replace(FIRST, **other)).causes == [] and port.runs == []


def test_a_row_of_padding_keeps_its_name():
    [cause] = named(Port({(): WRONG, ("a",): RIGHT}, {"a": "padding_idx"})).causes
    assert cause.name == "rows_without_gradient"


def test_gradients_without_a_graph_of_their_own_are_told_how_to_have_one():
    [cause] = named(Port({(): WRONG, ("a",): RIGHT}, {"a": "autograd.grad"})).causes
    assert cause.name == "detached" and "create_graph=True" in cause.fix


@pytest.mark.parametrize(
    "results",
    [
        {(): RIGHT, ("a",): RIGHT},  # the control: it is right as it is
        {(): WRONG},  # no place
        {(): WRONG, ("a",): None},  # the port fails
        {(): WRONG, ("a",): {**RIGHT, "tower_grad/0/v": np.array([1.0, 2.5])}},  # another gradient is wrong then
        {(): WRONG, ("a",): {**RIGHT, "loss/0": np.array(2.5)}},
        {(): WRONG, ("a",): {"loss/0": np.array(2.0), "tower_grad/0/w": RIGHT["tower_grad/0/w"]}},
    ],
)
def test_nothing_is_named_without_proof(results):
    assert named(Port(results)).causes == []


def test_several_places_are_named_where_only_all_of_them_do():
    port = Port({(): WRONG, ("a",): WRONG, ("b",): WRONG, ("a", "b"): RIGHT})
    assert [cause.name for cause in named(port).causes] == ["detached"]


def test_what_says_that_gradients_are_missing_gets_a_place_and_keeps_its_name_first():
    known = Cause("zero_gradient", "no gradient", "", "")
    assert [cause.name for cause in named(Port({(): WRONG, ("a",): RIGHT}), [known]).causes] == [
        "zero_gradient",
        "detached",
    ]
    narrow = Cause("reduced_precision", "a narrower float", "", "")
    assert [cause.name for cause in named(Port({(): WRONG, ("a",): RIGHT}), [narrow]).causes] == [
        "detached",
        "reduced_precision",
    ]
    other = Cause("some_towers", "", "", "")
    port = Port({(): WRONG, ("a",): RIGHT})
    assert named(port, [other]).causes == [other]
    assert port.runs == []


def test_a_detached_weight_is_named_end_to_end(tf2_sides, tmp_path):
    change = f"{BREAK}\n    return 1.0 * (model(x) - y).square().mean()"
    tied = "(model(x) - y).square().mean() + model.module.dense.weight.detach().sum() * model(x).mean()"
    folder = write_case(
        tmp_path / "tiny",
        torch=f"{change} -> return {tied}",
        tf="return 1.0 * tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y)) -> "
        "out = tf.matmul(x, kernel) + bias\n"
        "    return tf.reduce_mean(tf.square(out - y)) + tf.reduce_sum(kernel) * tf.reduce_mean(out)",
    )
    result = run_case(load_case(folder), tf2_sides, levels=("function",))
    assert result.first_difference.check.key == "tower_grad/0/dense/kernel"
    assert [cause.name for cause in result.causes] == ["detached"]
    assert result.first_difference.module == "dense"
    assert "weight.detach()" in result.first_difference.lines[1].text
