"""What a hazard advises is a port that the replay takes: each is followed here, and is the same."""

import json
import subprocess
from pathlib import Path

import pytest

from parity.cli import main
from parity.worker import bootstrap

from .conftest import environment, run

ROOT = Path(__file__).parents[3]
# What the port of each graph does where it follows the advice: its weights, and the loss of one rank.
ADVISED = {
    "summed": (["w"], "(x @ model.w).mean()"),  # the replay sums as the towers do
    "summed_after_dividing_the_losses": (["w"], "(x @ model.w).mean() / 2"),
    "same_batch_for_all": (["w"], "(x @ model.w).mean()"),
    "overlapping_slices": (["w"], "(x @ model.w).mean()"),
    "cut_after_preprocessing": (["w"], "((x - 3.5) / 7 @ model.w).mean()"),
    "examples_dealt_out_in_turn": (["w"], "(x @ model.w).mean()"),
    "mean_of_losses_put_one_after_the_other": (["w"], "(x @ model.w - 1).square().mean()"),
    "sum_of_losses_put_one_after_the_other": (["w"], "(x @ model.w - 1).square().sum()"),
    "losses_masked_together": (["w"], "masked((x @ model.w - 1).square()[:, 0])"),
    "decay_in_every_summed_tower": (["w"], "(x @ model.w).mean() + 0.05 * model.w.square().sum()"),
    "regularisation_left_behind": (["w"], "(x @ model.w).mean()"),
    "last_loss_only": (["w"], "(x @ model.w).mean()"),
    "one_minimize_over_the_sum": (["w"], "(x @ model.w).mean()"),
    "trained_again_beside_the_summary": (["w"], "(x @ model.w).mean()"),  # an update for each of the two runs
}
PORT = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        for name in {weights}:
            self.register_parameter(name, nn.Parameter(torch.zeros(2, 1)))

    def forward(self, x):
        return value(self, x)


def masked(costs):
    mask = (costs > 0.1).to(costs)
    return (costs * mask).sum() / mask.sum()


def value(model, x):
    return {loss}


def loss(model, x):
    return model(x)
"""


# Ports of their own: rows are clipped one by one, the last rank's statistics are kept, updates are written by hand.
ROWS = """
from torch import nn

from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Embedding(3, 1, sparse=True)

    def forward(self, x):
        return self.w(x.long() % 3).square().mean()


def loss(model, x):
    return model(x)


def optimizer(model):
    made = like_tf.GradientDescent(model.parameters(), lr=0.1)
    made.register_step_pre_hook(lambda *_: like_tf.clip_grads_by_global_norm_(model.parameters(), 0.1) and None)
    return made
"""
LAST_TOWER = """
import torch
from torch import distributed, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(2, 1))
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        with torch.no_grad():
            batch = x.mean(0)
            distributed.broadcast(batch, distributed.get_world_size() - 1)
            self.mean -= 0.125 * (self.mean - batch)
        return (x @ self.w).mean()


def loss(model, x):
    return model(x)
"""
BY_HAND = """
import torch
from torch import nn

from torch_ddp import like_tf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.zeros(2, 1)), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return (x @ self.w * self.b).mean()


def loss(model, x):
    return model(x)


class Adam(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {{"lr": 0.01, "adam_t": 1.0}})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = {{"m": torch.zeros_like(p), "v": torch.zeros_like(p)}}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            t = group["adam_t"]
            for p in group["params"]:
                m, v = self.state[p]["m"], self.state[p]["v"]
                m.mul_(0.9).add_(0.1 * p.grad)
                v.mul_(0.99).add_(0.01 * p.grad * p.grad)
                p -= group["lr"] * m / (1 - 0.9**t) / ((v / (1 - 0.99**t)).sqrt() + 1e-8)
            group["adam_t"] = t + 1


def optimizer(model):
    made = Adam(model.parameters())
    {clip}
    return made
"""
# torch's own divides by the norm and 1e-6 more, and is told apart
NORM_OF_ALL = (
    "made.register_step_pre_hook(lambda *_: like_tf.clip_grads_by_global_norm_(model.parameters(), 0.5) and None)"
)
VALUE = "made.register_step_pre_hook(lambda *_: nn.utils.clip_grad_value_(model.parameters(), 1e3))"
OF_THEIR_OWN = {
    "norm_of_rows_as_they_are": ROWS,
    "statistics_of_the_last_tower": LAST_TOWER,
    "written_by_hand_with_a_trainable_counter": BY_HAND.format(clip=""),
    "written_by_hand_clipped_by_the_norm_of_all": BY_HAND.format(clip=NORM_OF_ALL),
    "written_by_hand_clipped_by_value_which_never_happens": BY_HAND.format(clip=VALUE),
}


@pytest.fixture(scope="module")
def trace_of(tf_python, tmp_path_factory):
    """Records a graph by name, with its shadow."""
    out = tmp_path_factory.mktemp("advised")

    def record(name):
        words = [str(Path(__file__).with_name("hazard_graphs.py")), str(out), name]
        done = run(tf_python, words, out, PYTHONPATH=str(ROOT))
        assert done.returncode == 0, done.stderr
        command = [tf_python, str(bootstrap.__file__), "tf_towers.shadow", str(out / name)]
        subprocess.run(command, check=True, capture_output=True, timeout=240, env=environment(), cwd=out)
        return out / name

    return record


@pytest.mark.slow
@pytest.mark.thinned(1)
@pytest.mark.usefixtures("forked_torch")
@pytest.mark.parametrize("name", [*ADVISED, *OF_THEIR_OWN])
def test_a_port_that_does_as_the_hazards_advise_is_the_same(trace_of, name, tmp_path, monkeypatch, capsys):
    source = OF_THEIR_OWN.get(name) or PORT.format(weights=ADVISED[name][0], loss=ADVISED[name][1])
    (tmp_path / f"advised_{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    spec, out = f"advised_{name}", tmp_path / "result.json"
    words = ["replay", str(trace_of(name)), "--torch", f"{spec}:Model", "--loss", f"{spec}:loss", "--json", str(out)]
    words += ["--optimizer", f"{spec}:optimizer"] if "def optimizer" in source else []
    code = main([*words, "--quiet"])
    assert code == 0, capsys.readouterr().out
    without_effect = any("clipping never took effect" in note for note in json.loads(out.read_text())["notes"])
    assert without_effect == name.endswith("which_never_happens")
