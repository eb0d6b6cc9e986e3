"""Ports that bring an optimizer of their own: its state may be made late, and averages of the weights lie around it."""

import pytest
from support.tiny_case import write_case

from parity.case import load_case
from parity.experiment import run_case

OPTIMIZERS = """
import torch
from torch_ddp import like_tf

class Late(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, self.state[parameter], group["lr"])

class Lazy(Late):
    def update(self, parameter, state, rate):
        if not state:
            state["momentum_buffer"] = torch.full_like(parameter, START)
        state["momentum_buffer"].mul_(0.875).add_(parameter.grad)
        parameter.sub_(rate * state["momentum_buffer"])

def lazy(model):
    return Lazy(model.parameters(), {"lr": 0.125})

def plain(model):
    return like_tf.GradientDescent(model.parameters(), lr=0.125)

class Squares(Late):
    def update(self, parameter, state, rate):
        if not state:
            state["square_avg"] = torch.ones_like(parameter)
        state["square_avg"].mul_(0.875).addcmul_(parameter.grad, parameter.grad, value=0.125)
        parameter.addcdiv_(parameter.grad, (state["square_avg"] + 0.0625).sqrt(), value=-rate)

def squares(model):
    return Squares(model.parameters(), {"lr": 0.125})

def clipping(model):
    optimizer = plain(model)

    def clip(*_):
        for parameter in model.parameters():
            parameter.grad.clamp_(-0.01, 0.01)

    optimizer.register_step_pre_hook(clip)
    return optimizer
"""


def owning(folder, name, table, start="0.0"):
    write_case(folder, case=f'name = "sgd"\nlearning_rate = 0.1 -> {table}')
    file = folder / "case.toml"
    file.write_text(file.read_text().replace("[torch]", f'[torch]\noptimizer = "own:{name}"'))
    (folder / "own.py").write_text(OPTIMIZERS.replace("START", start))
    return load_case(folder)


MOMENTUM = 'name = "momentum"\nlearning_rate = 0.125\nmomentum = 0.875'


@pytest.mark.parametrize("name", ["momentum_buffer", "velocity"])
def test_state_that_is_made_in_the_first_step_is_compared(tf2_sides, tmp_path, name):
    case = owning(tmp_path / "case", "lazy", MOMENTUM)
    own = tmp_path / "case" / "own.py"
    own.write_text(own.read_text().replace("momentum_buffer", name))
    result = run_case(case, tf2_sides)
    assert result.verdict == "same", result.first_difference
    slots = {(check.run, check.step) for check in result.levels["function"].checks if check.key.startswith("slot/")}
    assert slots >= {("fresh", 0), ("init", 0), ("lockstep", 2), ("free", 2)}
    assert any(note.startswith("the slot momentum of the reference was") for note in result.notes) is (
        name == "velocity"
    )


def test_state_that_starts_at_another_value_is_named(tf2_sides, tmp_path):
    result = run_case(owning(tmp_path / "case", "lazy", MOMENTUM, "0.5"), tf2_sides, levels=("function",))
    assert (result.verdict, result.first_difference.check.run) == ("different", "fresh")
    assert result.causes[0].name == "slot_initial_value"


@pytest.mark.parametrize("changed", [False, True])
def test_averages_lie_around_an_optimizer_of_the_ports_own(tf2_sides, tmp_path, changed):
    table = 'name = "sgd"\nlearning_rate = 0.125\nema = { decay = 0.9 }'
    case = owning(tmp_path / "case", "plain", table)
    if changed:
        own = tmp_path / "case" / "own.py"
        own.write_text(own.read_text().replace("lr=0.125", "lr=0.25"))
    result = run_case(case, tf2_sides, levels=("function",))
    assert result.verdict == ("different" if changed else "same"), result.first_difference
    assert any(check.key.startswith("ema/") for check in result.levels["function"].checks if check.verdict != "not_run")
    assert any(note.startswith("averages of the weights: ours") for note in result.notes)


@pytest.mark.parametrize(
    ("name", "limit", "verdict", "causes"),
    [
        ("clipping", 0.01, "same", []),
        ("plain", 1e6, "same", []),  # nothing is ever clipped
        ("plain", 0.01, "different", ["clipping"]),
    ],
)
def test_what_an_own_optimizer_works_with_is_compared_with_the_clipped_gradients(
    tf2_sides, tmp_path, name, limit, verdict, causes
):
    table = f'name = "sgd"\nlearning_rate = 0.125\nclip = {{ by = "value", limit = {limit} }}'
    result = run_case(owning(tmp_path / "case", name, table), tf2_sides, levels=("function",))
    assert result.verdict == verdict, result.first_difference
    judged = {check.verdict for check in result.levels["function"].checks if check.key.startswith("clip/")}
    assert verdict in judged <= {"same", "different"}
    assert [cause.name for cause in result.causes][:1] == causes


@pytest.mark.parametrize(
    "momentum, verdict", [pytest.param(0.0, "same", id="none"), pytest.param(0.5, "different", id="some")]
)
def test_a_slot_that_an_own_optimizer_does_without_is_judged_by_the_updates(tf2_sides, tmp_path, momentum, verdict):
    table = 'name = "rmsprop"\nlearning_rate = 0.125\ndecay = 0.875\nepsilon = 0.0625'
    result = run_case(owning(tmp_path / "case", "squares", f"{table}\nmomentum = {momentum}"), tf2_sides)
    assert result.verdict == verdict, result.first_difference
    assert any("slot momentum: the candidate's" in note for note in result.levels["function"].notes)
    if verdict == "different":
        assert result.first_difference.quantity == "var"
