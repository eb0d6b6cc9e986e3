"""Recorded scripts replayed on their torch ports under DDP: right ports are the same, planted bugs are found."""

import json
from pathlib import Path

import numpy as np
import pytest

from parity.cli import main
from parity.trace import TraceWriter

from .conftest import SCRIPTS

PORTS = SCRIPTS / "ports"


@pytest.fixture
def replayed(monkeypatch, tmp_path):
    """Replays a trace on a port; returns exit code and result."""
    monkeypatch.chdir(PORTS)

    def replay(trace: Path, name: str, loss: str, *options: str):
        out = tmp_path / "result.json"
        words = ["replay", str(trace), "--torch", f"{name}_torch:Model", "--loss", f"{name}_torch:{loss}"]
        words += ["--map", f"{name}.toml", "--json", str(out), "--quiet", *options]
        code = main(words)
        return code, json.loads(out.read_text())

    return replay


@pytest.mark.parametrize("name", ["placeholder_slices", "split_sum"])
def test_a_recorded_script_and_its_port_are_the_same(recorded, replayed, name):
    code, result = replayed(recorded(name).out, name, "loss")
    assert code == 0, result["first_difference"]
    assert result["levels"]["float32"]["verdict"] == "same"
    assert result["reference"]["combine"] == result["candidate"]["combine"]
    judged = [check["key"] for check in result["checks"]]
    for quantity in ("feed/", "loss/", "tower_grad/1/", "grad/", "slot/", "var/", "state/learning_rate"):
        assert any(each.startswith(quantity) for each in judged), quantity


@pytest.mark.parametrize(
    ("name", "loss", "first"),
    [
        ("placeholder_slices", "wrong_loss", "loss"),
        ("split_sum", "loss_with_half_the_decay", "loss"),
        # The script adds its sparse gradients up and averages the others: what DDP cannot do is found.
        ("ungated", "loss", "grad"),
    ],
)
def test_what_a_port_does_otherwise_is_found(recorded, replayed, name, loss, first):
    code, result = replayed(recorded(name).out, name, loss)
    assert code == 1
    assert result["first_difference"]["quantity"] == first
    assert result["first_difference"]["step"] == 0


def test_a_trace_of_two_optimizers_is_refused(recorded, capsys):
    assert main(["replay", str(recorded("two_optimizers").out), "--torch", "m:M", "--loss", "m:l"]) == 2
    assert "expected one optimizer, got DAdam, GAdam" in capsys.readouterr().err


def test_clipped_gradients_need_the_ports_own_optimizer(recorded, capsys):
    assert main(["replay", str(recorded("monitored").out), "--torch", "m:M", "--loss", "m:l"]) == 2
    assert "Name an optimizer that clips with --optimizer MODULE:FUNCTION" in capsys.readouterr().err


def test_a_trace_without_steps_is_refused(tmp_path, capsys):
    writer = TraceWriter(tmp_path / "empty", {"package": "test"}, {"combine": "mean"})
    writer.init({})
    writer.close()
    assert main(["replay", str(tmp_path / "empty"), "--torch", "m:M", "--loss", "m:l"]) == 2
    assert "expected recorded steps" in capsys.readouterr().err


def test_shards_of_different_sizes_are_refused(tmp_path, capsys, replayed):
    variables = {name: {"shape": shape, "dtype": "float32", "kind": "weight"} for name, shape in SHAPES.items()}
    facts = {"combine": "mean", "towers": 2, "precision": "float32", "optimizer": {"name": "GradientDescentOptimizer"}}
    writer = TraceWriter(tmp_path / "uneven", {"package": "test"}, facts, variables)
    weights = {f"var/{name}": np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    writer.init(weights)
    feeds = {f"feed/{tower}/X": np.zeros((tower + 1, 5), np.float32) for tower in range(2)}
    writer.step(0, {**feeds, **weights})
    writer.close()
    words = ["replay", str(tmp_path / "uneven"), "--torch", "placeholder_slices_torch:Model"]
    words += ["--loss", "placeholder_slices_torch:loss", "--map", "placeholder_slices.toml"]
    assert main(words) == 2
    assert "expected equal shards of 'X' for 2 towers in step 0, got (1, 5), (2, 5)" in " ".join(
        capsys.readouterr().err.split()
    )


SHAPES = {"net/w1": [5, 4], "net/b1": [4], "net/w2": [4, 3], "net/b2": [3]}
