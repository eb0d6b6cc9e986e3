"""Level 4: the port in mixed precision against its own float32."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter
from support.tiers import few

from parity.case import load_case
from parity.case.optimizers import AnyOptimizer
from parity.experiment import run_case

ROOT = Path(__file__).parents[2]
SQUARE = ROOT / "tests" / "cases" / "square"
LEVELS = ("function", "mixed")
MOMENTUM = {"name": "momentum", "learning_rate": 0.02, "momentum": 0.9}

OWN = '''
import torch
from torch import nn
from torch_ddp import amp
from torch_ddp.like_tf import GradientDescent, clip_by_global_norm


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, features):
        first = self.first(features).tanh()
        return first, self.second(first).tanh()


class Overflowing(Model):
    def forward(self, features):
        first = self.first(features)
        square = (1000.0 * first) @ torch.full((8, 8), 1000.0, dtype=first.dtype)
        first = first.tanh() + 0 * square
        return first, self.second(first).tanh()


class RootOfZero(Model):
    def forward(self, features):
        first, second = super().forward(features)
        return first, second + ((second - second) ** 2).sum().sqrt()


def loss(model, features, targets):
    first, second = model(features)
    return (second - targets).square().mean(), {"first": first, "second": second}


def step(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    value, outputs = loss(model, features, targets)
    with amp.scale_loss(value, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    return value, outputs


def clipped_after(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    value, outputs = loss(model, features, targets)
    with amp.scale_loss(value, optimizer) as scaled:
        scaled.backward()
    clip(amp.master_params(optimizer))
    optimizer.step()
    return value, outputs


def clipped_within(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    value, outputs = loss(model, features, targets)
    with amp.scale_loss(value, optimizer) as scaled:
        scaled.backward()
        clip(model.parameters())
    optimizer.step()
    return value, outputs


def clip(weights):
    weights = list(weights)
    gradients, _ = clip_by_global_norm([p.grad for p in weights], 0.1)
    for p, gradient in zip(weights, gradients):
        p.grad = gradient


def never_unscaled(model, optimizer, scheduler, features, targets):
    optimizer.zero_grad()
    value, outputs = loss(model, features, targets)
    (value * (256.0 if amp.state_dict() else 1.0)).backward()
    optimizer.step()
    return value, outputs


def scale_set_anew(model, optimizer, scheduler, features, targets):
    returned = step(model, optimizer, scheduler, features, targets)
    if "loss_scaler0" in amp.state_dict():
        amp.load_state_dict({"loss_scaler0": {"loss_scale": 1024.0, "unskipped": 0}})
    return returned


class KeepsItsWeights(GradientDescent):
    """Steps the weights that it was made with, whatever takes their place in param_groups."""

    def __init__(self, weights, lr):
        self.weights = list(weights)
        super().__init__(self.weights, lr)

    def step(self, closure=None):
        with torch.no_grad():
            for p in self.weights:
                if p.grad is not None:
                    p -= self.param_groups[0]["lr"] * (p.grad / (65536 if p.dtype is torch.half else 1))


class RoundsItsWeights(GradientDescent):
    """Steps float32 masters through half precision."""

    def step(self, closure=None):
        super().step()
        for group in self.param_groups:
            for p in group["params"] if hasattr(self, "_amp_stash") else []:
                p.data.copy_(p.data.half().float())


def keeping(model):
    return KeepsItsWeights(model.parameters(), 0.05)


def rounding(model):
    return RoundsItsWeights(model.parameters(), 0.05)
'''


@pytest.fixture
def square(tmp_path):
    folder = tmp_path / "square"
    shutil.copytree(SQUARE, folder)
    (folder / "own.py").write_text(OWN)

    def case(level="O2", dtype="float16", table=None, steps=4, **torch):
        made = load_case(folder, steps=steps, opt_level=level, half_dtype=dtype)
        described = TypeAdapter(AnyOptimizer).validate_python({"name": "sgd", "learning_rate": 0.05, **(table or {})})
        changed = {name: f"own:{value}" for name, value in torch.items()}
        return made.model_copy(update={"optimizer": described, "torch": made.torch.model_copy(update=changed)})

    return case


def explain(result):
    return "\n".join(f"{level.name} {level.reason} {level.first_difference}" for level in result.levels.values())


def mixed(case, sides):
    result = run_case(case, sides, levels=LEVELS)
    assert result.levels["function"].verdict == "same", explain(result)
    return result.levels["mixed"]


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_a_right_port_is_as_good_as_half_precision_lets_it_be(square, tf2_sides, level, dtype):
    judged = mixed(square(level, dtype, MOMENTUM), tf2_sides)
    assert judged.verdict == "same", judged
    quantities = {check.key.split("/")[0] for check in judged.checks if check.verdict == "same"}
    assert quantities >= {"act", "loss", "tower_grad", "grad", "slot", "var"}
    apart = [check for check in judged.checks if check.key.startswith("act/")]
    assert all(check.difference > 0 for check in apart)  # it did run in half precision
    scaled = dtype == "float16" and level != "O3"
    assert any(check.key == "state/loss_scale" for check in judged.checks) == scaled


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("name", ["digits_mlp", "digits_convnet"])
def test_the_examples_are_as_good_as_half_precision_lets_them_be(tf2_sides, name, optimizer, level, dtype):
    table = MOMENTUM if optimizer == "momentum" else {"name": "adam"}
    case = load_case(ROOT / "examples" / name, steps=4, batch_size=24, opt_level=level, half_dtype=dtype)
    judged = mixed(case.model_copy(update={"optimizer": TypeAdapter(AnyOptimizer).validate_python(table)}), tf2_sides)
    if (name, optimizer, level, dtype) == ("digits_convnet", "adam", "O3", "bfloat16"):
        # beta2 = 0.999 is 1 in bfloat16.
        assert [cause.name for cause in judged.causes] == ["half_optimizer"]
        return
    assert judged.verdict == "same", judged


def test_a_step_of_the_ports_own_that_scales_and_clips_is_the_same(square, tf2_sides):
    assert mixed(square(step="step"), tf2_sides).verdict == "same"
    clip = {"clip": {"by": "global_norm", "limit": 0.1}}
    judged = mixed(square(table=clip, step="clipped_after"), tf2_sides)
    assert judged.verdict == "same", judged
    assert any(check.key.startswith("clip/") for check in judged.checks)


@pytest.mark.slow
def test_clipping_under_the_loss_scale_is_named(square, tf2_sides):
    judged = mixed(square("O1", table={"clip": {"by": "global_norm", "limit": 0.1}}, step="clipped_within"), tf2_sides)
    assert judged.verdict == "different"
    assert judged.first_difference.quantity == "clip"
    assert judged.causes[0].name == "loss_scale_in_clipping"
    assert "is 0.1 at all 4 steps" in judged.causes[0].evidence


@pytest.mark.slow
def test_a_loss_scale_that_is_never_taken_out_is_named(square, tf2_sides):
    judged = mixed(square(step="never_unscaled"), tf2_sides)
    assert judged.first_difference.quantity == "tower_grad"
    assert judged.causes[0].title == "the gradients still hold a loss scale of 256"


@pytest.mark.slow
def test_a_loss_scale_that_is_set_anew_is_named(square, tf2_sides):
    judged = mixed(square(step="scale_set_anew"), tf2_sides)
    assert (judged.first_difference.check.key, judged.first_difference.check.step) == ("state/loss_scale", 1)
    assert judged.causes[0].name == "loss_scale_rule"
    assert "1024 where Apex's rule gives 65536" in judged.causes[0].evidence


@pytest.mark.parametrize("optimizer", few(["keeping", "rounding"], "keeping"))
def test_an_update_that_passes_by_the_masters_is_named(square, tf2_sides, optimizer):
    judged = mixed(square(optimizer=optimizer), tf2_sides)
    assert judged.first_difference.quantity == "var"
    assert judged.causes[0].name == "master_weights"


@pytest.mark.slow
def test_an_op_that_overflows_is_named(square, tf2_sides):
    judged = mixed(square("O2", model="Overflowing"), tf2_sides)
    assert judged.first_difference.check.key == "act/0/first"
    assert judged.causes[0].title == "act/0/first overflows in float16"
    assert mixed(square("O2", "bfloat16", model="Overflowing"), tf2_sides).verdict == "same"


@pytest.mark.slow
def test_batch_norm_in_half_is_named(tf2_sides, tmp_path):
    shutil.copytree(ROOT / "examples" / "digits_convnet", tmp_path / "net" / "digits_convnet")
    shutil.copy(ROOT / "examples" / "digits.py", tmp_path / "net")
    file = tmp_path / "net" / "digits_convnet" / "model_torch.py"
    text = file.read_text()
    # A batch norm that amp does not take for one goes to half precision with the rest of the model.
    hidden = "self.norm = BatchNorm2d(channels)"
    assert hidden in text
    text = text.replace(hidden, "self.norm = Norm(channels)")
    text = text.replace("class Block(", NORM + "\n\nclass Block(")
    file.write_text(text)
    case = load_case(tmp_path / "net" / "digits_convnet", steps=2, batch_size=12, opt_level="O2")
    judged = mixed(case, tf2_sides)
    assert judged.verdict == "different"
    assert judged.first_difference.quantity == "stat"
    assert judged.causes[0].name == "batch_norm_in_half"


NORM = """import numpy as np

SHARE = float(np.float32(1) - np.float32(0.99))


class Norm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, SHARE, 1e-3
        )
"""


@pytest.mark.slow
def test_the_command_line_chooses_level_and_precision(tmp_path):
    command = [
        sys.executable,
        "-c",
        "import sys; from parity.cli import main; sys.exit(main())",
        "run",
        str(SQUARE),
    ]
    options = ["--levels", "1,4", "--opt-level", "O2", "--half-dtype", "bfloat16", "--precision", "float32"]
    done = subprocess.run(
        [*command, *options, "--json", str(tmp_path / "found.json")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    verdicts = {name: level["verdict"] for name, level in found["levels"].items()}
    assert verdicts == {"function": "same", "float32": "not_run", "trajectory": "not_run", "mixed": "same"}
    assert "(not run: float32, trajectory)" in done.stdout
    columns = np.load(tmp_path / "found.checks.npz")
    assert (columns["level"] == "mixed").sum() > 20


def test_level_4_of_a_port_in_float32_is_not_run(square, tf2_sides):
    judged = run_case(square("O0", steps=1), tf2_sides, levels=LEVELS).levels["mixed"]
    assert (judged.verdict, judged.reason) == ("not_run", 'the port runs in float32: [torch] opt_level = "O0"')


def test_a_case_in_float64_leaves_levels_2_and_4_to_level_1(square, tf2_sides):
    case = square("O2", steps=1).model_copy(update={"precision": "float64"})
    levels = run_case(case, tf2_sides, levels=("function", "float32", "mixed")).levels
    assert {name: level.verdict for name, level in levels.items()} == {
        "function": "same", "float32": "not_run", "trajectory": "not_run", "mixed": "not_run"
    }  # fmt: skip
    assert levels["mixed"].reason == levels["float32"].reason
    assert levels["mixed"].reason.startswith("the case trains in float64, which level 1 has decided")
