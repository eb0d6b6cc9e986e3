"""What a generated training program is given in its proof: rates, nothing more."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from parity.trace import Trace, TraceWriter
from torch_ddp.process_group import Rank
from torch_ddp.worker.training_program import TrainingProgram, _take_rates
from torch_ddp.worker.user_schedule import step_without_updates


def updated_by(own, recorded):
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.SGD([weight], lr=own)
    _take_rates(optimizer, [recorded])
    optimizer.step()
    return -float(weight.detach())


@pytest.mark.parametrize("share", [2.0**-24, -(2.0**-24), 2.0**-19])
def test_a_rate_that_differs_by_rounding_of_float32_is_the_recorded_one(share):
    assert updated_by(0.1 * (1 + share), 0.1) == 0.1


@pytest.mark.parametrize("share", [2.0**-17, -(2.0**-17), 1.0])
def test_a_rate_that_differs_by_more_stays_the_programs_own(share):
    assert updated_by(0.1 * (1 + share), 0.1) == 0.1 * (1 + share)


def test_groups_with_rates_of_their_own_stay_in_proportion_to_the_recorded_rate():
    weights = [torch.zeros(1, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    groups = [
        {"params": [weight], "lr": rate * (1 + 2.0**-19)} for weight, rate in zip(weights, (0.5, 2.0), strict=True)
    ]
    optimizer = torch.optim.SGD(groups)
    _take_rates(optimizer, [0.5])
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert [-float(weight.detach()) for weight in weights] == pytest.approx([0.5, 2.0], rel=1e-15)


def test_a_schedule_begins_where_the_recording_does():
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    step_without_updates(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step)), 3)
    assert optimizer.param_groups[0]["lr"] == 0.25


PROGRAM = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = torch.nn.Parameter(torch.ones(1))
        self.actor = torch.nn.Parameter(torch.ones(1))

def loss_critic(model, x):
    return (model.critic * x).sum()

def loss_actor(model, x, z):
    return (model.actor * x * z).sum()

def learning_rate_actor(step):
    raise NotImplementedError

def parts_of(model):
    actor = torch.optim.SGD([model.actor], lr=learning_rate_actor(0))
    schedule = torch.optim.lr_scheduler.LambdaLR(actor, lambda step: learning_rate_actor(step) / learning_rate_actor(0))
    critic = torch.optim.SGD([model.critic], lr=1.0)
    return {"model": model, "optimizer_critic": critic, "optimizer_actor": actor, "schedule_actor": schedule}

def train(batches, parts, step, save):
    for step, batch in enumerate(batches, step + 1):
        turn = TURNS[(step - 1) % 3]
        updates = parts["optimizer_" + turn]
        updates.zero_grad()
        {"critic": loss_critic, "actor": loss_actor}[turn](parts["model"], **batch).backward()
        updates.step()
        if turn == "actor":
            parts["schedule_actor"].step()
        save(step)
"""


def recorded_section(folder, name, steps, weights, **more):
    """What is told of one optimizer: its feeds and the weights before its first step."""
    for part in ("start", "feeds"):
        writer = TraceWriter(folder / f"{name}-{part}", {"package": "test"}, {}, {})
        writer.init(weights if part == "start" else {})
        for number in steps if part == "feeds" else ():
            inputs = {"x": np.full(1, number + 1.0, np.float32), **({"z": np.ones(1)} if name == "actor" else {})}
            writer.step(number, {f"feed/{each}": value for each, value in inputs.items()})
        writer.close()
    described = {
        "suffix": f"_{name}",
        "start": folder / f"{name}-start",
        "feeds": folder / f"{name}-feeds",
        "steps": steps,
    }
    more = {"rates": [1.0] * len(steps), "draws": False, "watch": None, **more}
    return {**described, "out": folder / name, "rounded": False, **more}


def weights_after(folder, name):
    trace = Trace(folder / name)
    return [float(trace.step(number).read(f"var/{name}")[0]) for number in trace.step_numbers]


@pytest.mark.parametrize("turns", [["critic", "critic", "actor"], ["actor", "critic", "critic"]])
def test_several_optimizers_take_turns_as_the_program_says_and_rates_that_are_fed_are_the_recorded_ones(
    tmp_path, turns
):
    space = {"TURNS": turns}
    exec(PROGRAM, space)
    code = SimpleNamespace(load=lambda name: space[name.partition(":")[2]])
    start = {"var/critic": np.zeros(1), "var/actor": np.zeros(1)}
    steps = {name: [number for number in range(6) if turns[number % 3] == name] for name in ("critic", "actor")}
    # What the one that begins later starts from is what the other has left, and must not stay for the first step.
    later = {"var/critic": np.full(1, 99.0), "var/actor": np.zeros(1)}
    sections = [
        recorded_section(tmp_path, "critic", steps["critic"], start if turns[0] == "critic" else later, fed=False),
        recorded_section(tmp_path, "actor", steps["actor"], start, fed=True, rates=[0.5, 0.25]),
    ]
    program = TrainingProgram(code, Rank(0, 0, 1), torch.device("cpu"), "train")
    program.run({"sections": sections, "precision": "float64"}, lambda done, total: None)
    critic, actor = ([number + 1.0 for number in steps[name]] for name in ("critic", "actor"))
    assert weights_after(tmp_path, "critic") == pytest.approx(-np.cumsum(critic))
    assert weights_after(tmp_path, "actor") == pytest.approx(-np.cumsum([0.5 * actor[0], 0.25 * actor[1]]))
    with pytest.raises(NotImplementedError):
        space["learning_rate_actor"](0)
