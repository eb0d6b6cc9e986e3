"""A small recorded graph of two towers, made by hand."""

from parity.trace.graph import RecordedGraph


def op(name, kind="Add", *inputs, device=""):
    return {"name": name, "op": kind, "input": list(inputs), "device": device}


def tower(scope, device):
    """A tower: x -> conv with the weight -> loss; the gradient of the weight; a moving statistic."""
    backward = f"{scope}/gradients/{scope}/conv/Conv2D_grad"
    return [
        op(f"{scope}/conv/axis", "Const", device=device),
        op(f"{scope}/conv/Conv2D", "Conv2D", f"split:{scope[-1]}", "conv/w/read", f"{scope}/conv/axis", device=device),
        op(f"{scope}/loss", "Mean", f"{scope}/conv/Conv2D", device=device),
        op(f"{scope}/gradients/grad_ys", "Fill", device=device),
        op(
            f"{backward}/Conv2DBackpropFilter",
            "Conv2DBackpropFilter",
            f"{scope}/gradients/grad_ys",
            f"{scope}/conv/Conv2D",
        ),
        op(f"{scope}/bn/AssignMovingAvg", "AssignSub", "bn/mean", f"{scope}/conv/Conv2D", device=device),
    ]


NODES = [
    op("x", "Placeholder"),
    op("split", "Split", "x"),
    op("conv/w", "VariableV2", device="/cpu:0"),
    op("conv/w/read", "Identity", "conv/w", device="/cpu:0"),
    op("bn/mean", "VariableV2", device="/gpu:0"),
    *tower("tower_0", "/gpu:0"),
    *tower("tower_1", "/gpu:1"),
    op("AddN", "AddN", *(f"tower_{n}/gradients/tower_{n}/conv/Conv2D_grad/Conv2DBackpropFilter" for n in (0, 1))),
    op("mean/y", "Const"),
    op("mean", "RealDiv", "AddN", "mean/y"),
    op("rate", "Const"),
    op("update/Apply", "ApplyGradientDescent", "conv/w", "rate", "mean"),
    op("train", "NoOp", "^update/Apply"),
]
VALUES = {
    "loss/0": "tower_0/loss:0",
    "loss/1": "tower_1/loss:0",
    "tower_grad/0/conv/w": "tower_0/gradients/tower_0/conv/Conv2D_grad/Conv2DBackpropFilter:0",
    "tower_grad/1/conv/w": "tower_1/gradients/tower_1/conv/Conv2D_grad/Conv2DBackpropFilter:0",
    "grad/conv/w": "mean:0",
}
HAZARD = {
    "name": "sum_not_mean",
    "evidence": "1 of 1 gradients is the sum, e.g. of conv/w.",
    "meaning": "DDP averages.",
}
FACTS = {"tower_scopes": ["tower_0", "tower_1"], "hazards": [HAZARD], "framework": "tensorflow 1.15.5"}


def recorded(nodes=NODES, values=VALUES, **fields):
    runs = [
        {
            "values": {name: {"tensor": tensor, "dtype": "float32"} for name, tensor in values.items()},
            "updates": ["train"],
        }
    ]
    if not any(node["name"] == "train" for node in nodes):
        runs[0]["updates"] = []
    return RecordedGraph({"node": nodes}, {"var/conv/w": "conv/w", "stat/bn/mean": "bn/mean"}, runs, **fields)
