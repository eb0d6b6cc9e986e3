"""Ports in plain torch: paddings as numbers, torch's own layers and optimizers, and what differs by them."""

import numpy as np
import pytest

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.ops.layers import space
from parity.port.source.parameters import Parameters
from parity.port.source.plain import EPSILON, LABELS, ROUNDED_DECAY, SAME, UNBIASED, UNDEBIASED, Plain
from parity.port.source.writer import Writer
from parity.port.tower.ops import CONST, FEED, VARIABLE, Op

SHAPES = {"conv/w": (3, 3, 2, 4), "gamma": (2,), "beta": (2,), "mean": (2,), "variance": (2,)}


def written(kind, size, inputs=(), **attributes):
    """The layers, the expression and the differences of an op of images, or of rows, of a size."""
    shape = (2, size, size, 2) if size else (2, 3)
    x = Op(FEED, "x", [], {}, [shape], ["float32"]).output()
    given = [4, -(-size // 2), -(-size // 2)] if size else []
    op = Op(kind, "op", [x, *inputs], attributes, [(2, *given[1:], 4) if size else (2,)], ["float32"])
    plain = Plain()
    kinds = {name: "stat" if name in ("mean", "variance") else "var" for name in SHAPES}
    parameters = Parameters(SHAPES, kinds, in_plain_torch=plain)
    writer = Writer(parameters, "self", {x: "x", **{each: each.op.name for each in inputs}})
    (code,) = writer.write([op], [op.output()], as_they_are=True)
    return [layer.made for layer in parameters.layers.values()], code.text, [*plain.differences]


def convolution(stride):
    return {"weight": "conv/w", "bias": None, "padding": "SAME", "strides": [1, stride, stride, 1]}


@pytest.mark.parametrize(
    ("size", "stride", "made", "taken"),
    [
        (8, 1, "nn.Conv2d(2, 4, 3, padding=1, bias=False)", "x.permute(0, 3, 1, 2)"),
        (7, 2, "nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)", "x.permute(0, 3, 1, 2)"),
        (8, 2, "nn.Conv2d(2, 4, 3, stride=2, bias=False)", "F.pad(x.permute(0, 3, 1, 2), (0, 1, 0, 1))"),
    ],
)
def test_a_convolution_is_padded_by_what_same_is_in_the_recorded_size(size, stride, made, taken):
    layers, code, differences = written("Conv2d", size, **convolution(stride))
    assert (layers, code) == ([made], f"self.conv({taken})")
    assert differences == ([SAME] if stride > 1 else [])


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("kind", ["MaxPool", "AvgPool"])
def test_a_pooling_in_plain_torch_is_that_of_like_tf(kind, size):
    torch = pytest.importorskip("torch")
    from torch_ddp import like_tf

    _, code, _ = written(kind, size, padding="SAME", ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1])
    assert "like_tf" not in code
    x = torch.randn(2, size, size, 2, dtype=torch.float64)
    found = eval(code, {"torch": torch, "F": torch.nn.functional, "x": x})
    pool = like_tf.max_pool if kind == "MaxPool" else like_tf.avg_pool
    assert torch.allclose(found, pool(x.permute(0, 3, 1, 2), 3, stride=2, padding="SAME"), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("more", "differences"),
    [
        ({"fused": True}, [ROUNDED_DECAY]),
        ({"fused": False}, [ROUNDED_DECAY, UNBIASED]),
        ({"fused": False, "mean_biased": "b", "variance_biased": "c"}, [ROUNDED_DECAY, UNBIASED, UNDEBIASED]),
    ],
)
def test_a_batch_norm_in_plain_torch_says_how_its_statistics_differ(more, differences):
    known = {"weight": "gamma", "bias": "beta", "mean": "mean", "variance": "variance", "eps": 0.001, "decay": 0.9}
    layers, _, found = written("BatchNorm", 8, **known, **more)
    assert layers == ["nn.BatchNorm2d(2, eps=0.001, momentum=0.1)"]
    assert found == differences


def test_the_cross_entropy_of_probabilities_is_torchs():
    labels = Op(FEED, "labels", [], {}, [(2, 3)], ["float32"]).output()
    _, code, differences = written("SoftmaxCrossEntropyWithLogits", 0, [labels])
    assert (code, differences) == ('F.cross_entropy(x, labels, reduction="none")', [LABELS])


def test_optimizers_that_torch_has_are_torchs():
    plain = Plain()
    lines = [
        "    return like_tf.Momentum(model.parameters(), lr=schedule(0), momentum=0.9, nesterov=False)",
        "    return like_tf.Momentum(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)",
        "    return like_tf.GradientDescent(model.parameters(), lr=0.1)",
    ]
    assert plain.optimizers([lines]) == [
        [
            "    return torch.optim.SGD(model.parameters(), lr=schedule(0), momentum=0.9)",
            "    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)",
            "    return torch.optim.SGD(model.parameters(), lr=0.1)",
        ]
    ]
    assert not plain.differences
    adam = "return like_tf.Adam(model.parameters(), lr=0.01, beta1=0.9, beta2=0.999, eps=1e-08)"
    assert plain.optimizers([[adam]]) == [
        ["return torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.999), eps=1e-08)"]
    ]
    assert [*plain.differences] == [EPSILON]
    kept = plain.sentences("like_tf.RMSProp(model.parameters())")
    assert kept[-1] == "Still of like_tf, for torch has none like it: RMSProp."


def test_the_strides_of_a_transposed_convolution_are_those_of_its_images():
    shape = Op(CONST, "shape", [], {"value": np.array([2, 8, 8, 4])}, [(4,)], ["int32"])
    kernel = Op(VARIABLE, "conv/w", [], {"kind": "var"}, [(3, 3, 4, 2)], ["float32"])
    x = Op(FEED, "x", [], {}, [(2, 4, 4, 2)], ["float32"])
    inputs = [each.output() for each in (shape, kernel, x)]
    op = Op("Conv2DBackpropInput", "op", inputs, {"strides": [1, 2, 2, 1]}, [(2, 8, 8, 4)], ["float32"])
    assert space(op, "strides") == (2, 2)
