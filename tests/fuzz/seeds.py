"""Inputs that are right, made by the project's own writers: what mutations begin with."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tomllib
from support.made_recording import made_recording
from support.made_sides import CASE, made_case, made_sides

from parity.experiment import run_case
from parity.experiment.sides.golden_side import keep_golden
from parity.trace import (
    ForwardOp,
    RecordedGraph,
    SourceLine,
    TraceWriter,
    write_forward,
    write_graph,
)
from parity.trace.checksum import CHECKSUM_KEY
from parity.trace.forward import LaidOut, Operand

from .file_mutations import header_of, tensors_of, with_header
from .inputs import Files, read_folder

GRADIENT_DESCENT = {"name": "GradientDescent", "learning_rate": 0.1}
LINE = ["model.py", 3, "tower", "kernel = tf.get_variable('kernel', [2, 3])"]


def unsigned(files: Files) -> Files:
    """Returns files without their checksums, as a stranger would leave them out."""
    found = dict(files)
    for name, entry in files.items():
        if isinstance(entry, bytes) and name.endswith(".json"):
            value = json.loads(entry)
            value.pop(CHECKSUM_KEY, None)
            found[name] = json.dumps(value).encode()
        elif isinstance(entry, bytes) and name.endswith(".safetensors"):
            found[name] = with_header(*header_of(entry))
    return found


def _seed(make: Callable[[Path], Any]) -> Callable[[Path], Files]:
    def made(folder: Path) -> Files:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return read_folder(make(folder))

    return made


@_seed
def trace(folder: Path) -> Path:
    """A trace of live towers, with everything that a step may have: sections, sparse rows, draws, averages, integers."""
    draw = np.random.default_rng(0)
    shapes = {"dense/kernel": (2, 3), "dense/bias": (3,), "table": (4, 2), "norm/moving_mean": (3,)}
    variables = {
        name: {
            "shape": list(shape),
            "dtype": "float32",
            "kind": "statistic" if "moving" in name else "weight",
            "use": "MatMul",
        }
        for name, shape in shapes.items()
    }
    facts = {
        "precision": "float32",
        "towers": 2,
        "slots": ["momentum"],
        "combine": "mean",
        "optimizer": GRADIENT_DESCENT,
    }
    facts.update(
        hazards=[{"name": "random_ops", "evidence": "drop/Random"}],
        script="train.py",
        losses=[["loss:0"], ["loss_1:0"]],
    )
    facts["counters_after"] = {"state/global_step": 2}
    writer = TraceWriter(folder, {"package": "tf_towers", "framework": "tensorflow 2.16"}, facts, variables, ["dense"])

    def state() -> dict[str, Any]:
        found = {
            f"{'stat' if 'moving' in name else 'var'}/{name}": draw.standard_normal(shape)
            for name, shape in shapes.items()
        }
        return {name: value.astype("float32") for name, value in found.items()}

    slots = {f"slot/momentum/{name}": np.ones(shapes[name], np.float32) for name in ("dense/kernel", "table")}
    writer.init({**state(), **slots, "state/global_step": np.array(0)})
    for number in range(2):
        towers: dict[str, Any] = {}
        for tower in "01":
            towers[f"feed/{tower}/x"] = draw.standard_normal((2, 2)).astype("float32")
            towers[f"feed/{tower}/y"] = np.array([0, 1])
            towers[f"noise/{tower}/drop/Random"] = draw.random((2, 3), np.float32)
            towers[f"act/{tower}/dense"] = draw.standard_normal((2, 3)).astype("float32")
            towers[f"loss/{tower}"] = np.float32(1.5)
            towers[f"tower_grad/{tower}/dense/kernel"] = draw.standard_normal((2, 3)).astype("float32")
        rows = {"grad/table.values": np.ones((2, 2), np.float32), "grad/table.indices": np.array([1, 3])}
        grads = {
            f"grad/{name}": draw.standard_normal(shapes[name]).astype("float32")
            for name in ("dense/kernel", "dense/bias")
        }
        counters = {"state/global_step": np.array(number), "state/learning_rate": np.array(0.1, np.float32)}
        averages = {
            "ema/dense/kernel": np.ones((2, 3), np.float16),
            "eval/loss": np.float32(2.0),
            "metric/top": np.array(True),
        }
        writer.step(number, {**counters, **towers, **grads, **rows, **slots, **state(), **averages})
    writer.close()
    return folder


def without_rows(make: Callable[[Path], Files]) -> Callable[[Path], Files]:
    """Returns seeds of a trace whose gradients are all dense, as `parity compare` takes them."""

    def made(folder: Path) -> Files:
        found = unsigned(make(folder))
        for name, entry in found.items():
            if isinstance(entry, bytes) and name.startswith("step-"):
                found[name] = tensors_of(entry, lambda text: not text.startswith("grad/table."))
        return found

    return made


@_seed
def port_trace(folder: Path) -> Path:
    """A trace as a port leaves one, in its own names and layouts."""
    draw = np.random.default_rng(0)
    shapes = {"dense.weight": (3, 2), "dense.bias": (3,), "table.weight": (4, 2), "norm.running_mean": (3,)}
    variables = {
        name: {
            "shape": list(shape),
            "dtype": "float32",
            "kind": "statistic" if "running" in name else "weight",
            "use": "Linear",
        }
        for name, shape in shapes.items()
    }
    facts = {
        "precision": "float32",
        "ranks": 2,
        "slots": ["momentum_buffer"],
        "ranks_agree": True,
        "framework": "torch",
    }
    writer = TraceWriter(folder, {"package": "torch_ddp", "framework": "torch 2.13"}, facts, variables, ["dense"])
    state = {
        f"{'stat' if 'running' in name else 'var'}/{name}": draw.random(shape, np.float32)
        for name, shape in shapes.items()
    }
    writer.init({**state, "state/global_step": np.array(0)})
    for number in range(2):
        found = {
            f"grad/{name}": draw.random(shapes[name], np.float32)
            for name in ("dense.weight", "dense.bias", "table.weight")
        }
        found.update({f"feed/{tower}/x": draw.random((2, 2), np.float32) for tower in "01"})
        found.update({f"loss/{tower}": np.float32(1.5) for tower in "01"})
        writer.step(number, {"state/global_step": np.array(number), **found, **state})
    writer.close()
    return folder


@_seed
def recording(folder: Path) -> Path:
    """A recorded script with its float64 shadow."""
    return Path(made_recording(folder, facts=(("script", "train.py"), ("losses", [["loss:0"], ["loss_1:0"]]))))


@_seed
def golden(folder: Path) -> Path:
    """A golden trace of the case that `case` leaves."""
    case, sides = made_case(folder / "case", CASE.replace("steps = 4", "steps = 2")), made_sides(folder)
    run_case(case, sides, out=folder / "out", blessing=True)
    keep_golden(case, folder / "out", folder / "golden")
    return folder / "golden"


MAPPING = """
[mapping]
"dense/kernel" = { to = "dense.weight", transform = "transpose" }
"dense/bias" = "dense.bias"
"table" = { to = "table.weight", transform = "reshape(4, 2) | identity" }
"norm/moving_mean" = { to = ["norm.running_mean"] }
[mapping.act]
"dense" = { to = "dense", transform = "flatten_hwc(1, 1, 3)" }
[mapping.feed]
x = "x"
[mapping.metric]
top = "top"
"""
WHOLE_CASE = """
name = "whole"
steps = 20
batch_size = 64
towers = 2
seed = 7
precision = "float32"
combine = "mean"
batches = "data:batches"
init = "perturbed"
[optimizer]
name = "momentum"
learning_rate = { kind = "exponential", initial = 0.1, decay_steps = 10, decay_rate = 0.5, staircase = true }
momentum = 0.9
weight_decay = { rate = 1e-4, only = "kernel" }
clip = { kind = "global_norm", limit = 5.0, at = "combined" }
[optimizers.head]
name = "adam"
learning_rate = 0.001
only = "head"
[tf]
tower = "model_tf:tower"
variables = "cpu"
batch_norm_updates = "first"
[torch]
model = "model_torch:Model"
loss = "model_torch:loss"
threads = 1
[expect]
why = "paper"
learning_rate_factor = "1/2"
"""


@_seed
def case(folder: Path) -> Path:
    """A case, with modules that nobody may import."""
    made_case(folder, CASE.replace("steps = 4", "steps = 2"))
    return folder


@_seed
def whole_case(folder: Path) -> Path:
    """A case with every table, whether or not they may stand together."""
    made_case(folder)
    (folder / "case.toml").write_text(WHOLE_CASE + MAPPING)
    return folder


@_seed
def mapping(folder: Path) -> Path:
    """A file with [mapping] tables."""
    (folder / "mapping.toml").write_text(MAPPING)
    return folder


def _graph() -> RecordedGraph:
    def op(name: str, kind: str, *inputs: str, **attributes: Any) -> dict[str, Any]:
        typed = {"T": {"type": "DT_FLOAT"}, **attributes}
        return {"name": name, "op": kind, "input": list(inputs), "attr": typed}

    axes = {"dtype": "DT_INT32", "tensor_shape": {"dim": [{"size": "2"}]}, "int_val": [0, 1]}
    rate = {"dtype": "DT_FLOAT", "tensor_shape": {}, "float_val": [0.1]}
    nodes = [
        op("x", "Placeholder", dtype={"type": "DT_FLOAT"}),
        op("dense/kernel", "VariableV2", dtype={"type": "DT_FLOAT"}),
        op("read", "Identity", "dense/kernel"),
        op("product", "MatMul", "x", "read", transpose_a={"b": False}, transpose_b={"b": False}),
        op("active", "Relu", "product"),
        op("axes", "Const", value={"tensor": axes}, dtype={"type": "DT_INT32"}),
        op("loss", "Mean", "active", "axes", keep_dims={"b": False}, Tidx={"type": "DT_INT32"}),
        op("gradient", "MatMul", "x", "active", transpose_a={"b": True}, transpose_b={"b": False}),
        op("rate", "Const", value={"tensor": rate}, dtype={"type": "DT_FLOAT"}),
        op("update", "ApplyGradientDescent", "dense/kernel", "rate", "gradient", use_locking={"b": False}),
    ]
    values = {
        "feed/0/x": {"tensor": "x:0", "dtype": "float32"},
        "loss/0": {"tensor": "loss:0", "dtype": "float32"},
        "grad/dense/kernel": {"tensor": "gradient:0", "dtype": "float32"},
        "tower_grad/0/dense/kernel": {"tensor": "gradient:0", "dtype": "float32"},
    }
    run = {"values": values, "updates": ["update"], "sections": {"": {"variables": ["dense/kernel"]}}}
    return RecordedGraph(
        {"node": nodes, "versions": {"producer": 27}},
        {"var/dense/kernel": "dense/kernel"},
        [run],
        frames=[["train.py", 9, "<module>", "loss = tower(x)"], LINE],
        callers={"product": [0, 1], "loss": [0], "dense/kernel": [0, 1]},
        shapes={"product": [[None, 3]], "loss": [[]], "active": [[None, 3]]},
        arguments=["--rate", "0.1"],
        flags={"rate": 0.1, "layers": ["a", "b"]},
        collections={"losses": ["loss:0"]},
        hyper_parameters={"": {"learning_rate": 0.1}},
        combinations={"": {"dense/kernel": "one"}},
        clipping={"": {"kind": "global_norm", "limit": 5.0, "place": "after_combining"}},
    )


@_seed
def script(folder: Path) -> Path:
    """A recorded script of one layer and one tower, with its graph and a forward pass."""
    draw = np.random.default_rng(0)
    facts = {"towers": 1, "combine": "mean", "optimizer": GRADIENT_DESCENT, "slots": [], "script": "train.py"}
    variables = {"dense/kernel": {"shape": [2, 3], "dtype": "float32", "kind": "weight", "use": "MatMul"}}
    writer = TraceWriter(folder, {"package": "tf_towers"}, {**facts, "precision": "float32"}, variables)
    kernel = draw.random((2, 3), np.float32)
    writer.init({"var/dense/kernel": kernel, "state/global_step": np.array(0)})
    for number in range(2):
        gradient = draw.random((2, 3), np.float32)
        kernel = kernel - np.float32(0.1) * gradient
        found = {"loss/0": np.float32(1.5), "grad/dense/kernel": gradient, "tower_grad/0/dense/kernel": gradient}
        counters = {"state/global_step": np.array(number), "state/learning_rate": np.array(0.1, np.float32)}
        writer.step(
            number, {**counters, "feed/0/x": draw.random((4, 2), np.float32), **found, "var/dense/kernel": kernel}
        )
    writer.close()
    write_graph(folder, _graph())
    return folder


@_seed
def forward(folder: Path) -> Path:
    """A forward pass with lines, operands and a layout."""
    line = SourceLine(*LINE, (("train.py", 9, "<module>", "main()"),))
    value = np.ones((2, 3), np.float32)
    taken = Operand("0", "x", None, [2, 2], np.ones((2, 2), np.float32))
    turned = Operand("1", "", 0, [3, 2], None, LaidOut("permute", "layers.0", line))
    ops = [
        (
            ForwardOp(
                "product",
                "MatMul",
                [],
                ["dense/kernel"],
                [2, 3],
                {"strides": [1, 1], "padding": "SAME"},
                line,
                (taken,),
            ),
            value,
        ),
        (ForwardOp("turned", "Transpose", [0], [], [3, 2], {}, None, (turned,)), value.T),
    ]
    write_forward(folder / "pass", 0, "0", ops)
    return folder / "pass"


@_seed
def weights(folder: Path) -> Path:
    """A state_dict of the port, as `parity map --weights` takes it."""
    from parity.trace import write_tensors

    found = {
        "dense.weight": np.ones((3, 2)),
        "dense.bias": np.ones(3),
        "table.weight": np.ones((4, 2)),
        "norm.running_mean": np.ones(3),
    }
    write_tensors(
        folder / "weights.safetensors",
        {**found, "norm.num_batches_tracked": np.array(3), "state/global_step": np.array(5)},
    )
    return folder


@_seed
def checkpoint(folder: Path) -> Path:
    """A checkpoint of a small training."""
    return _checkpoint(folder, sharded=False)


@_seed
def shards(folder: Path) -> Path:
    """A checkpoint whose tensors are in files beside it."""
    return _checkpoint(folder, sharded=True)


def _checkpoint(folder: Path, sharded: bool) -> Path:
    import torch

    from torch_ddp import Checkpoints, Progress, Rank

    torch.manual_seed(0)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    parts = {"model": model, "optimizer": optimizer}
    Checkpoints(folder / "saved", Rank(0, 0, 1), parts, settings={"seed": 1}, sharded=sharded).save(Progress(3, 0, 3))
    return folder / "saved"


@functools.lru_cache(maxsize=64)
def parsed(text: bytes) -> str:
    """Returns a table of TOML as a text of JSON, which is read in a hundredth of the time."""
    return json.dumps(tomllib.loads(text.decode()))
