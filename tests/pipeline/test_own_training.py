"""Schedules, training steps and batch norm of the port's own: proven where they are right, found and named where not."""

import shutil
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from support.tiers import few

from parity.case import load_case
from parity.case.optimizers import AnyOptimizer
from parity.experiment import run_case

ROOT = Path(__file__).parents[2]
SQUARE = ROOT / "tests" / "cases" / "square"
EXPONENTIAL = {"schedule": "exponential_decay", "learning_rate": 0.05, "decay_steps": 1, "decay_rate": 0.9}
PIECEWISE = {"schedule": "piecewise_constant", "boundaries": [1, 3], "values": [0.1, 0.05, 0.01]}

OWN = """
import contextlib

import torch
from torch_ddp.like_tf import GradientDescent, clip_by_global_norm


def loss(model, features, targets):
    first, second = model(features)
    return (second - targets).square().mean(), {"first": first, "second": second}


def exponential(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def cycle(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9 ** step)


def rate(step):
    return 0.05 * 0.9 ** step


def late_rate(step):
    return rate(max(0, step - 1))


def in_epochs(step):
    return rate(step // 3)


def once_per_epoch(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1000, 0.9)


def step(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    value, outputs = loss(model, features, targets)
    value.backward()
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return value, outputs


def forgetful(model, optimizer, scheduler, features, targets):
    value, outputs = loss(model, features, targets)
    value.backward()
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return value, outputs


def early(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    value, outputs = loss(model, features, targets)
    value.backward()
    scheduler.step()
    optimizer.step()
    return value, outputs


def clipping(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    value, outputs = loss(model, features, targets)
    value.backward()
    parameters = list(model.parameters())
    clipped, _ = clip_by_global_norm([p.grad for p in parameters], 0.1)
    for p, gradient in zip(parameters, clipped):
        p.grad = gradient
    optimizer.step()
    return value, outputs


def two_pieces(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    pieces = list(zip(features.chunk(2), targets.chunk(2)))
    losses, outputs = [], []
    for number, (x, y) in enumerate(pieces):
        with model.no_sync() if number == 0 else contextlib.nullcontext():
            part, out = loss(model, x, y)
            (part / 2).backward()
        losses.append(part.detach() / 2)
        outputs.append(out)
    optimizer.step()
    return sum(losses), {name: torch.cat([out[name] for out in outputs]) for name in outputs[0]}


"""


def explain(result):
    return "\n".join(f"{level.reason} {level.first_difference} {level.notes}" for level in result.levels.values())


@pytest.fixture
def square(tmp_path):
    folder = tmp_path / "square"
    shutil.copytree(SQUARE, folder)
    (folder / "own.py").write_text(OWN)

    def case(rate=0.05, steps=6, table=None, **torch):
        described = {"name": "sgd", "learning_rate": rate, **(table or {})}
        made = load_case(folder, steps=steps)
        changed = {name: f"own:{value}" for name, value in torch.items()}
        return made.model_copy(
            update={
                "optimizer": TypeAdapter(AnyOptimizer).validate_python(described),
                "torch": made.torch.model_copy(update=changed),
            }
        )

    return case


@pytest.mark.parametrize("scheduler", few(["exponential", "cycle", "rate"], "rate"))
@pytest.mark.parametrize("table", [{}, pytest.param({"name": "momentum", "momentum": 0.9}, marks=pytest.mark.slow)])
def test_a_schedule_of_the_ports_own_is_the_same_up_to_float32(square, tf2_sides, levels, scheduler, table):
    result = run_case(square(EXPONENTIAL, table=table, scheduler=scheduler), tf2_sides, levels)
    assert result.verdict == "same", explain(result)
    judged = [check for check in result.levels["function"].checks if check.key == "state/learning_rate"]
    assert {check.verdict for check in judged if check.run == "lockstep"} == {"same"}
    assert len({check.size for check in judged if check.run == "lockstep"}) == 6  # it does move
    assert result.candidate["scheduler"] == f"own:{scheduler}"


@pytest.mark.parametrize("bug", few(["late_rate", "in_epochs", "once_per_epoch"], "late_rate"))
def test_a_schedule_at_the_wrong_steps_is_named(square, tf2_sides, bug):
    result = run_case(square(EXPONENTIAL, scheduler=bug), tf2_sides, levels=("function",))
    first = result.first_difference
    assert (first.check.step, first.check.key) == (1, "state/learning_rate")
    named = {"late_rate": "shifted_schedule"}.get(bug, "slow_schedule")
    assert result.causes[0].name == named
    titles = {
        "late_rate": "the learning rate comes a step too late",
        "in_epochs": "the schedule is stepped once in 3 updates",
        "once_per_epoch": "the learning rate stays 0.05 over the 6 recorded steps, where the reference's changes",
    }
    assert result.causes[0].title == titles[bug]


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_step_of_the_ports_own_is_the_same(square, tf2_sides, levels, scheduled):
    more = {"scheduler": "exponential"} if scheduled else {}
    result = run_case(square(EXPONENTIAL if scheduled else 0.05, step="step", **more), tf2_sides, levels)
    assert result.verdict == "same", explain(result)
    judged = {check.key.split("/")[0] for check in result.levels["function"].checks if check.verdict == "same"}
    assert judged >= {"act", "loss", "tower_grad", "grad", "var", "state"}


def test_a_step_that_clips_or_works_in_pieces_is_the_same(square, tf2_sides, levels):
    clip = {"clip": {"by": "global_norm", "limit": 0.1}}
    result = run_case(square(table=clip, step="clipping"), tf2_sides, levels)
    assert result.verdict == "same", explain(result)
    assert any(check.key.startswith("clip/") for check in result.levels["function"].checks)
    result = run_case(square(step="two_pieces"), tf2_sides, levels)
    assert result.verdict == "same", explain(result)


def test_a_step_that_does_not_clip_where_the_graph_does_is_named(square, tf2_sides):
    result = run_case(
        square(table={"clip": {"by": "global_norm", "limit": 0.1}}, step="step"), tf2_sides, levels=("function",)
    )
    assert result.first_difference.quantity == "clip"
    title = "the candidate leaves the gradients as they are where the reference clips by global norm to 0.1"
    assert (result.causes[0].name, result.causes[0].title) == ("clipping", title)


def test_a_step_that_forgets_zero_grad_is_named(square, tf2_sides):
    result = run_case(square(step="forgetful"), tf2_sides, levels=("function",))
    assert (result.first_difference.check.step, result.first_difference.quantity) == (1, "tower_grad")
    assert result.causes[0].name == "stale_gradient"


def test_a_schedule_that_is_stepped_before_the_update_is_named(square, tf2_sides):
    result = run_case(square(EXPONENTIAL, step="early", scheduler="exponential"), tf2_sides, levels=("function",))
    assert (result.first_difference.check.step, result.first_difference.check.key) == (0, "state/learning_rate")
    assert result.causes[0].title == "the learning rate comes a step too early"


@pytest.mark.slow
def test_batch_norm_over_all_ranks_against_towers_is_named(tf2_sides):
    case = load_case(ROOT / "examples" / "digits_convnet", steps=2, batch_size=12)
    case = case.model_copy(update={"torch": case.torch.model_copy(update={"sync_batch_norm": True})})
    result = run_case(case, tf2_sides, levels=("function",))
    assert result.first_difference.check.key == "act/0/layer1"
    assert result.causes[0].name == "sync_batch_norm"
    assert "the port normalises over the whole batch" in result.causes[0].title
    assert result.candidate["sync_batch_norm"] is True


def test_batch_norm_over_one_rank_is_that_of_one_tower(tf2_sides):
    case = load_case(ROOT / "examples" / "digits_convnet", steps=2, batch_size=12, towers=1)
    case = case.model_copy(update={"torch": case.torch.model_copy(update={"sync_batch_norm": True})})
    result = run_case(case, tf2_sides, levels=("function",))
    assert result.verdict == "same", explain(result)
