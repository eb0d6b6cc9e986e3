"""What a hazard advises is a port that the replay takes: each is followed here, and is the same."""

import subprocess
from pathlib import Path

import pytest

from parity.cli import main
from parity.trace import bootstrap

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


@pytest.fixture(scope="module")
def traces(tf_python, tmp_path_factory):
    """The traces of the graphs, with their shadows."""
    out = tmp_path_factory.mktemp("advised")
    words = [str(Path(__file__).with_name("hazard_graphs.py")), str(out), *ADVISED]
    done = run(tf_python, words, out, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    for name in ADVISED:
        command = [tf_python, str(bootstrap.__file__), "tf_towers.shadow", str(out / name)]
        subprocess.run(command, check=True, capture_output=True, timeout=240, env=environment(), cwd=out)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", ADVISED)
def test_a_port_that_does_as_the_hazards_advise_is_the_same(traces, name, tmp_path, monkeypatch, capsys):
    weights, loss = ADVISED[name]
    (tmp_path / f"advised_{name}.py").write_text(PORT.format(weights=weights, loss=loss), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    spec = f"advised_{name}"
    code = main(["replay", str(traces / name), "--torch", f"{spec}:Model", "--loss", f"{spec}:loss", "--quiet"])
    assert code == 0, capsys.readouterr().out
