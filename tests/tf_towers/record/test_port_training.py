"""Training programs that `parity port` writes, launched as their docstrings say, killed and resumed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parity.cli import main
from parity.port.weights import carried_weights
from parity.trace import Trace, parse_key, write_tensors
from parity.trace.safetensors import TensorFile

ROOT = Path(__file__).parents[3]
LEFT = (
    '    raise NotImplementedError("batches: expected the data side of the script, got none. Write it in train.py.")\n'
)
# What a user writes: here the recorded batches. Rank 0 is killed in the middle, once its checkpoint is written.
BATCHES = """
    import os
    import signal

    from parity.trace import Trace

    trace = Trace({trace!r})
    for number in range(step, len(trace.step_numbers)):
        if rank.rank == 0 and number == step + 1 and "KILLED" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        file = trace.step(number)
        own = [key for key in file.keys("feed") if key.tower == str(rank.rank)]
        fed = {{key.name: torch.from_numpy(file.read(key).copy()) for key in own}}
        yield {{name: each.double() if each.is_floating_point() else each for name, each in fed.items()}}
"""
# As the shadow computes: in float64, with hyper-parameters as the graph has them, rounded to float32.
AS_THE_SHADOW = """
from torch_ddp.step.optimizer import round_momenta

torch.set_default_dtype(torch.float64)


def rounded(updates, model):
    round_momenta(model)
    for group in updates.param_groups:
        numbers = {name: value for name, value in group.items() if isinstance(value, float)}
        group.update({name: float(torch.tensor(value, dtype=torch.float32)) for name, value in numbers.items()})
    return updates


"""


def variables_of(file):
    return {parse_key(text).name: file.read(text) for text in file.names("var", "stat")}


def launched(folder, *words, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fused_norm", "placeholder_slices"])
def test_a_program_that_is_launched_killed_and_resumed_ends_where_the_float64_shadow_ends(recorded, tmp_path, name):
    trace = recorded(name).out
    assert main(["port", str(trace), "--out", str(tmp_path), "--no-prove", "--quiet"]) == 0
    program = (tmp_path / "train.py").read_text()
    assert LEFT in program
    program = program.replace(LEFT, BATCHES.format(trace=str(trace)))
    program = program.replace(" optimizer(model)", " rounded(optimizer(model), model)")
    (tmp_path / "train.py").write_text(program.replace("MAPPING =", f"{AS_THE_SHADOW}MAPPING =", 1))
    # The first weights, as a checkpoint of the script's has them.
    write_tensors(tmp_path / "weights.safetensors", variables_of(Trace(trace).init()))

    steps = len(Trace(trace).step_numbers)
    command = ["train.py", "--gpus", "2", "--steps", str(steps), "--every", "1", "--weights", "weights.safetensors"]
    killed = launched(tmp_path, *command, KILLED="1")
    assert killed.returncode != 0 and signal.SIGKILL.name in killed.stderr, killed.stdout + killed.stderr
    resumed = launched(tmp_path, *command)
    assert f"2 ranks, begun at 1, {steps} updates" in resumed.stdout, resumed.stdout + resumed.stderr

    ended = launched(tmp_path, "-m", "torch_ddp.checkpoint", "training", "ended.safetensors")
    assert ended.returncode == 0, ended.stderr
    write_tensors(tmp_path / "shadow.safetensors", variables_of(Trace(trace / "shadow" / "free").step(steps - 1)))
    wanted = carried_weights(tmp_path / "shadow.safetensors", tmp_path / "port.toml")
    found = TensorFile(str(tmp_path / "ended.safetensors"))
    for path, value in wanted.items():
        assert np.abs(found.read(path) - value).max() <= 1e-9 * np.abs(value).max(), path


@pytest.mark.slow
def test_the_test_beside_a_port_proves_it_and_fails_where_the_port_is_edited(recorded, tmp_path):
    trace = recorded("queue_fed").out
    assert main(["port", str(trace), "--out", str(tmp_path), "--no-prove", "--quiet"]) == 0
    plugin = ["-m", "pytest", "-q", "-c", os.devnull, "-p", "parity.pytest_plugin", "test_port.py"]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = launched(tmp_path, *plugin, **alone)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    port = tmp_path / "port.py"
    port.write_text(port.read_text().replace("0.004", "0.04"))
    done = launched(tmp_path, *plugin, **alone)
    assert "1 failed" in done.stdout and "verdict: different" in done.stdout
