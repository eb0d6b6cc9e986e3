"""Training programs that `parity port` writes, launched as their docstrings say, killed and resumed."""

import os
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from parity.cli import main
from parity.port.weights import carried_weights
from parity.trace import Trace, parse_key, write_tensors
from parity.trace.safetensors import TensorFile

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "port.md").read_text(encoding="utf-8")
LEFT = (
    '    raise NotImplementedError("batches: expected the data side of the script, got none. Write it in train.py.")\n'
)
RATE_LEFT = '    raise NotImplementedError("learning_rate: expected what the script feeds, got none. Write it here.")\n'
# What a user writes: here the recorded batches and rates. Rank 0 is killed in the middle, once its checkpoint is written.
BATCHES = """
    import os
    import signal

    for number in range(step, len(RECORDED.steps)):
        if rank.rank == 0 and number == len(RECORDED.steps) // 2 and "KILLED" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        whole = {{name.partition("/")[2]: torch.from_numpy(value) for name, value in RECORDED.batch(number).items()}}
        fed = torch_ddp.shard(whole, rank.rank, rank.world_size)
        yield {{name: each.double() if each.is_floating_point() else each for name, each in fed.items()}}
"""
RATE = "    return RECORDED.rate(min(step, len(RECORDED.steps) - 1))\n"
# As the shadow computes: in float64, with hyper-parameters as the graph has them, rounded to float32, and its draws.
AS_THE_SHADOW = """
import port
from parity.experiment.replay.script import parts_of as recorded_parts
from parity.trace import Trace
from torch_ddp.momenta import round_momenta
from torch_ddp.record.recorded_draws import with_recorded_draws

torch.set_default_dtype(torch.float64)
(RECORDED,) = recorded_parts(Trace({trace!r}))
loss = with_recorded_draws(port.loss)


def rounded(updates, model):
    round_momenta(model)
    for group in updates.param_groups:
        numbers = {{name: value for name, value in group.items() if isinstance(value, float)}}
        group.update({{name: float(torch.tensor(value, dtype=torch.float32)) for name, value in numbers.items()}})
    return updates


"""


def variables_of(file):
    return {parse_key(text).name: file.read(text) for text in file.names("var", "stat")}


@pytest.fixture
def launched(torch_python):
    """Runs a program that has torch already."""
    return lambda folder, *words, **more: run_here(torch_python, folder, *words, **more)


def run_here(python, folder, *words, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}
    command = [python, *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def as_a_user_completes_it(folder, trace):
    """Writes what is left to write in a training program, and has it compute as the shadow does."""
    program = (folder / "train.py").read_text()
    assert LEFT in program
    program = program.replace(LEFT, BATCHES.format()).replace(RATE_LEFT, RATE)
    program = re.sub(r"([ =])(optimizer\(model.*\))(?=[,}\n])", r"\1rounded(\2, model)", program)
    shadow = AS_THE_SHADOW.format(trace=str(trace))
    (folder / "train.py").write_text(program.replace("MAPPING =", f"{shadow}MAPPING =", 1))
    # The first weights, as a checkpoint of the script's has them.
    write_tensors(folder / "weights.safetensors", variables_of(Trace(trace).init()))


@pytest.mark.slow
@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", ["split_sum", "recurrent", "fused_norm"])  # a conv net, an LSTM, moving statistics
def test_a_program_that_is_launched_killed_and_resumed_ends_where_the_float64_shadow_ends(
    recorded, launched, tmp_path, name
):
    trace = recorded(name).out
    assert main(["port", str(trace), "--out", str(tmp_path), "--no-prove", "--quiet"]) == 0
    as_a_user_completes_it(tmp_path, trace)

    steps = len(Trace(trace).step_numbers)
    command = ["train.py", "--gpus", "2", "--steps", str(steps), "--every", "1", "--weights", "weights.safetensors"]
    killed = launched(tmp_path, *command, KILLED="1")
    assert killed.returncode != 0 and signal.SIGKILL.name in killed.stderr, killed.stdout + killed.stderr
    resumed = launched(tmp_path, *command)
    assert f"2 ranks, begun at {steps // 2}, {steps} updates" in resumed.stdout, resumed.stdout + resumed.stderr

    ended = launched(tmp_path, "-m", "torch_ddp.checkpoint", "training", "ended.safetensors")
    assert ended.returncode == 0, ended.stderr
    write_tensors(tmp_path / "shadow.safetensors", variables_of(Trace(trace / "shadow" / "free").step(steps - 1)))
    wanted = carried_weights(tmp_path / "shadow.safetensors", tmp_path / "port.toml")
    found = TensorFile(str(tmp_path / "ended.safetensors"))
    distances = {path: np.abs(found.read(path) - value).max() / np.abs(value).max() for path, value in wanted.items()}
    print(f"{name}: {len(distances)} tensors at most {max(distances.values()):.1e} of the scale away")
    assert max(distances.values()) <= 1e-9, distances


SAVED = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with np.load(sys.argv[1]) as held:
    for name in held.files:
        tf.get_variable(name.replace("|", "/"), initializer=held[name])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    tf.train.Saver().save(session, sys.argv[2], global_step=20)
"""


@pytest.mark.slow
def test_the_page_on_ports_says_how_a_checkpoint_of_the_script_s_begins_a_training(recorded, launched, tmp_path):
    """The block of docs/port.md, with a checkpoint that TensorFlow's own Saver writes."""
    [commands] = re.findall(
        r"<!-- run by: tests/tf_towers/record/test_port_training.py -->\n```bash\n(.*?)```", PAGE, re.S
    )
    trace = recorded("split_sum").out
    assert main(["port", str(trace), "--out", str(tmp_path), "--no-prove", "--quiet"]) == 0
    as_a_user_completes_it(tmp_path, trace)
    (tmp_path / "weights.safetensors").unlink()
    variables = variables_of(Trace(trace).init())
    np.savez(tmp_path / "v.npz", **{name.replace("/", "|"): value for name, value in variables.items()})
    saved = launched(tmp_path, "-c", SAVED, "v.npz", str(tmp_path / "model.ckpt"))
    assert saved.returncode == 0, saved.stderr
    for command in commands.splitlines():
        assert command.startswith("python ")
        done = launched(tmp_path, *command.split()[1:])
        assert done.returncode == 0, done.stdout + done.stderr
    read = TensorFile(str(tmp_path / "weights.safetensors"))
    assert all(np.array_equal(read.read(text), variables[parse_key(text).name]) for text in read.names("var", "stat"))
    assert "2 ranks, begun at 0" in done.stdout


@pytest.mark.slow
def test_the_test_beside_a_port_proves_it_and_fails_where_the_port_is_edited(recorded, launched, tmp_path):
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
