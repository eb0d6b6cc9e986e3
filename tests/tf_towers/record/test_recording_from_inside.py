"""Three lines in a TensorFlow script and three in a torch script leave traces that `parity compare` takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from parity.cli import main
from parity.trace import Trace

from .conftest import environment

ROOT = Path(__file__).parents[3]
TF = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
import tf_towers

tf.disable_v2_behavior()
with tf_towers.recording(sys.argv[1], shadow=False):
    x, y = tf.placeholder(tf.float32, [8, 3], "x"), tf.placeholder(tf.float32, [8, 2], "y")
    opt, towers = tf.train.MomentumOptimizer(0.1, 0.9), []
    for i, (piece, wanted) in enumerate(zip(tf.split(x, 2), tf.split(y, 2))):
        with tf.name_scope("tower_%d" % i), tf.variable_scope("net", reuse=i > 0):
            w = tf.get_variable("w", [3, 2], initializer=tf.random_normal_initializer(seed=1))
            loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(piece, w)) - wanted))
            towers.append(opt.compute_gradients(loss))
    train = opt.apply_gradients([((a + b) / 2, v) for (a, v), (b, _) in zip(*towers)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for k in range(3):
            random = np.random.RandomState(k)
            session.run(train, {x: random.randn(8, 3), y: random.randn(8, 2)})
print("done")
"""
TORCH = """
import sys
import numpy as np
import torch
import torch_ddp
from parity.trace import Trace
from torch.nn.parallel import DistributedDataParallel


def train(rank, out, start, bug):
    model = torch.nn.Linear(3, 2, bias=False)
    torch_ddp.load_weights(model, {"weight": Trace(start).init().read("var/net/w").T.copy()})
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(np.float32(0.1)), momentum=float(np.float32(0.9)))
    with torch_ddp.recording(out, ddp, optimizer) as record:
        for k in range(3):
            random = np.random.RandomState(k)
            whole = {"x": torch.tensor(random.randn(8, 3)).float(), "y": torch.tensor(random.randn(8, 2)).float()}
            batch = torch_ddp.shard(whole, rank.rank, rank.world_size)
            with record.step(**batch):
                optimizer.zero_grad()
                loss = (torch.tanh(ddp(batch["x"])) - batch["y"]).square().mean()
                (2 * loss if bug else loss).backward()
                optimizer.step()


if __name__ == "__main__":
    torch_ddp.spawn(train, 2, sys.argv[1], sys.argv[2], sys.argv[3] == "bug")
"""


def run(python, script, *words):
    done = subprocess.run(
        [python, str(script), *words],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def reference(tf_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inside")
    (folder / "train.py").write_text(TF)
    done = run(tf_python, folder / "train.py", str(folder / "tf"))
    assert done.stdout.endswith("done\n")
    assert "record: 3 steps in" in done.stderr
    return folder / "tf"


@pytest.fixture
def compared(reference, tmp_path):
    def compare(bug: str):
        script = tmp_path / "train_torch.py"
        script.write_text(TORCH)
        run(sys.executable, script, str(tmp_path / "torch"), str(reference), bug)
        (tmp_path / "map.toml").write_text('[mapping]\n"net/w" = "weight"\n')
        words = ["compare", str(reference), str(tmp_path / "torch"), "--map", str(tmp_path / "map.toml")]
        code = main([*words, "--json", str(tmp_path / "result.json"), "--quiet"])
        return code, json.loads((tmp_path / "result.json").read_text())

    return compare


def test_both_scripts_are_the_same(compared, tmp_path):
    code, result = compared("none")
    assert code == 0, result["first_difference"]
    trace = Trace(tmp_path / "torch")
    assert trace.step_numbers == [0, 1, 2]
    assert trace.facts["ranks"] == 2
    judged = {check["key"] for check in result["checks"]}
    assert {"feed/1/x", "loss/1", "tower_grad/1/net/w", "grad/net/w", "slot/momentum/net/w", "var/net/w"} <= judged


@pytest.mark.slow
def test_what_the_torch_script_does_otherwise_is_found(compared):
    code, result = compared("bug")
    assert code == 1
    assert result["first_difference"]["quantity"] == "loss"
