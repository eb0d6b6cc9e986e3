"""The skeleton of a port that a recording gives: everything that the trace knows, word for word, and nothing run."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.replay import skeleton
from parity.experiment.replay.script import ReplayError
from parity.experiment.replay.skeleton import write_skeleton
from parity.trace import MissingError, TraceWriter

VARIABLES = {
    "net/kernel": {"shape": [3, 2], "dtype": "float32", "kind": "weight", "use": "MatMul"},
    "net.kernel": {"shape": [], "dtype": "float32", "kind": "weight"},
    "norm/mean": {"shape": [2], "dtype": "float32", "kind": "statistic", "use": "FusedBatchNormV3"},
}
FED = {
    "feed/0/x": np.zeros((4, 3), np.float32),
    "feed/1/x": np.zeros((5, 3), np.float32),
    "feed/0/labels": np.zeros(4, np.int64),
    "feed/0/recorded_draw_7": np.zeros((4, 2), np.float32),
    "feed/0/recorded_draw_3_in_loop_1": np.zeros((6, 2), np.float32),
    "loss/0": np.array(1.25, np.float32),
    "loss/1": np.array(7.0, np.float32),
    "grad/net/kernel": np.ones((3, 2), np.float32),
}
OPTIMIZER = {"name": "momentum", "learning_rate": 0.1, "momentum": 0.9}


def recorded(folder, tensors=None, **facts):
    """Leaves a recording of one step and returns its folder."""
    told = {"combine": "mean", "optimizer": OPTIMIZER, "towers": 2, **facts}
    writer = TraceWriter(folder / "trace", {"package": "tf_towers"}, told, VARIABLES)
    writer.init({})
    writer.step(0, FED if tensors is None else tensors)
    writer.close()
    return folder / "trace"


@pytest.fixture
def graph(monkeypatch):
    """Has the recorded graph be one of these ops, of which the loss needs all but the last two."""

    def node(name, op, *inputs):
        return {"name": name, "op": op, **({"input": list(inputs)} if inputs else {})}

    nodes = [
        node("x", "Placeholder"),
        node("before", "DecodeJpeg"),
        node("cast", "Cast", "x", "before"),
        node("kernel", "VariableV2"),
        node("product", "MatMul", "cast:0", "kernel", "^check"),
        node("check", "Assert"),
        *[node(f"sum{place}", "AddV2", "product" if place == 0 else f"sum{place - 1}:1") for place in range(3)],
        node("loss", "MatMul", "sum2", "gone"),
        node("train", "ApplyMomentum", "loss"),
        node("other", "Conv2D"),
    ]
    runs = [
        {"values": {"feed/1/x": {"tensor": "other:0"}}},
        {
            "values": {
                "loss/0": {"tensor": "loss:0"},
                "feed/0/x": {"tensor": "cast:0"},
                "feed/1/x": {"tensor": "sum1:0"},
            }
        },
        {"values": {"loss/0": {"tensor": "other:0"}}},
    ]
    found = SimpleNamespace(nodes=nodes, runs=runs)
    monkeypatch.setattr(skeleton, "read_graph", lambda directory: found)
    return found


WHOLE = '''"""A port of train.py: fill in `Model.forward`, then prove it.

parity replay {trace} --torch port:Model --map port.toml --loss port:loss --optimizer port:optimizer
"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net_kernel = nn.Parameter(torch.zeros(3, 2))  # net/kernel: read by MatMul
        self.net_kernel_ = nn.Parameter(torch.zeros(()))  # net.kernel: read by nothing in the first tower
        self.register_buffer("norm_mean", torch.zeros(2))  # norm/mean: a moving statistic, read by FusedBatchNormV3

    def forward(self, *inputs):
        # Parameters have TensorFlow's layouts: kernels are [in, out] and HWIO, images NHWC. Give a layer its own layout
        # (nn.Linear, nn.Conv2d) by naming its parameters in port.toml without the transform.
        # Draw 3 of the script, of shape [6, 2] in each tower (in a loop: one iteration after the other, or all of them at \
once): draw here too, e.g. nn.functional.dropout.
        # Draw 7 of the script, of shape [4, 2] in each tower: draw here too, e.g. nn.functional.dropout.
        # The first tower's ops between inputs and loss, in the script's order:
        # MatMul, Assert, AddV2, MatMul
        raise NotImplementedError("fill in the forward of the port: what the tower computes")


def loss(model, x, labels):
    """The loss of one tower, a scalar. In the script: tower_0/loss, tower_1/loss."""
    # x: float32 [4, 3] in each tower
    # labels: int64 [4] in each tower
    # In the first recorded step tower 0 has 1.25.
    # The towers' gradients become their sum; the replay does the same over the ranks.
    return model(x, labels)


def optimizer(model):
    # In the script: momentum; learning_rate=0.1, momentum=0.9.
    # The script clips the combined gradients: do so in optimizer.register_step_pre_hook.
    raise NotImplementedError("make the optimizer of the port")
'''


def test_a_skeleton_holds_all_that_the_recording_knows(tmp_path, graph):
    losses = [["tower_0/loss"], ["tower_1/loss"]]
    told = {"script": "/somewhere/train.py", "losses": losses, "clipped": True, "combine": "sum"}
    trace = recorded(tmp_path, **told)
    port, table = write_skeleton(trace, tmp_path / "new" / "out")
    assert port.read_text() == WHOLE.replace("{trace}", str(trace))
    assert table.read_text().splitlines() == [
        "[mapping]",
        '"net/kernel" = { to = "net_kernel", transform = "identity" }',
        '"net.kernel" = { to = "net_kernel_", transform = "identity" }',
        '"norm/mean" = { to = "norm_mean", transform = "identity" }',
    ]


def test_what_a_recording_does_not_know_is_left_out_or_said(tmp_path, monkeypatch):
    def read(directory):
        raise MissingError("graph: none")

    monkeypatch.setattr(skeleton, "read_graph", read)
    bare = {name: value for name, value in FED.items() if name.startswith(("feed/0/x", "grad"))}
    text = write_skeleton(recorded(tmp_path, bare), tmp_path)[0].read_text()
    assert text.startswith('"""A port of a recorded script: ') and "def optimizer" not in text
    for words in ("--optimizer", "Draw ", "ops between", "In the first recorded step"):
        assert words not in text
    assert 'In the script: not known."""' in text


def test_each_optimizer_of_a_script_has_a_loss_and_where_it_clips_an_optimizer_of_its_own(tmp_path, graph):
    sections = {name: {"optimizer": {"name": name}, "clipped": name == "d"} for name in ("g", "d")}
    own = {}
    for name in sections:
        own |= {f"section/{name}/loss/0": np.array(2.5), f"section/{name}/grad/net/kernel": FED["grad/net/kernel"]}
        own[f"section/{name}/feed/0/x"] = FED["feed/0/x"]
    text = write_skeleton(recorded(tmp_path, own, sections=sections), tmp_path)[0].read_text()
    assert text.splitlines()[2].endswith("--loss d=port:d_loss --loss g=port:g_loss --optimizer d=port:d_optimizer")
    for words in ("def g_loss(model, x):", "def d_loss(model, x):", "def d_optimizer(model):", "script: d; not known."):
        assert text.count(words) == 1
    assert "def g_optimizer" not in text


@pytest.mark.parametrize(("count", "last"), [(60, "Op59"), (61, "…")])
def test_sixty_ops_are_listed_and_more_are_cut(tmp_path, graph, count, last):
    graph.nodes[:] = [{"name": "loss", "op": "Op0", "input": ["n1"]}]
    graph.nodes += [{"name": f"n{n}", "op": f"Op{n}", "input": [f"n{n + 1}"]} for n in range(1, count)]
    text = write_skeleton(recorded(tmp_path), tmp_path)[0].read_text()
    ops = (
        text.partition("in the script's order:\n")[2]
        .partition("        raise")[0]
        .replace("#", " ")
        .replace(",", " ")
        .split()
    )
    assert (len(ops), ops[-1]) == (min(count, 61), last) and ops[:60] == [f"Op{n}" for n in range(60)]


def test_a_port_that_somebody_filled_in_is_never_overwritten(tmp_path):
    trace = recorded(tmp_path)
    (tmp_path / "port.toml").write_text("mine")
    with pytest.raises(ReplayError, match=r"expected no port\.toml in .*, got one\. Name another folder with --init"):
        write_skeleton(trace, tmp_path)
    assert not (tmp_path / "port.py").exists() and (tmp_path / "port.toml").read_text() == "mine"


def test_an_input_is_given_a_name_that_a_function_can_have(tmp_path):
    with pytest.raises(ReplayError, match=r"got 'class'\. Rename it in \[mapping\.feed\]"):
        write_skeleton(recorded(tmp_path, {**FED, "feed/0/class": np.zeros(4)}), tmp_path)
