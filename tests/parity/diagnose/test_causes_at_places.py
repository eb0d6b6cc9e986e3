"""From the place where two passes part to the cause: inputs, weights, products, images and losses, on made arrays."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.made_steps import trace

from parity.diagnose import Evidence
from parity.diagnose.located import search
from parity.diagnose.located.search import with_causes_at
from parity.experiment.layers import locate_first
from parity.judge import Check, FirstDifference, Join
from parity.judge.result import Cause
from parity.locate.matching import Pass
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import LOSS, ForwardOp, Operand, SourceLine

RANDOM = np.random.default_rng(71)
X, Y = RANDOM.normal(size=(6, 5)), RANDOM.normal(size=(6, 5))
WEIGHTS = {
    "one/kernel": RANDOM.normal(size=(5, 5)),
    "two/kernel": RANDOM.normal(size=(5, 5)),
    "two/bias": RANDOM.normal(size=5),
}
FEEDS = {"x": X, "y": Y}


def side(file, *ops):
    """A pass of ``(name, kind, takes, output)``, and attributes: an int is an op, a str an input or a weight."""
    values, listed, taken = [], [], []
    for number, (name, kind, takes, output, *rest) in enumerate(ops):
        named = {**WEIGHTS, **FEEDS}
        given = [
            values[each] if isinstance(each, int) else named[each] if isinstance(each, str) else each for each in takes
        ]
        operands = tuple(
            Operand(
                str(at),
                each if isinstance(each, str) else "",
                each if isinstance(each, int) else None,
                list(np.shape(value)),
            )
            for at, (each, value) in enumerate(zip(takes, given, strict=True))
        )
        inputs = [each for each in takes if isinstance(each, int)]
        weights = [each for each in takes if isinstance(each, str) and each in WEIGHTS]
        line = SourceLine(file, number + 1, "tower", f"{kind} of {name}")
        listed.append(ForwardOp(name, kind, inputs, weights, list(np.shape(output)), *(rest or [{}]), line, operands))
        values.append(np.asarray(output))
        taken.append([np.asarray(each) for each in given])
    return Pass(listed, values.__getitem__, lambda number, at: taken[number][at])


def named(folder, one, other, known=(), declared=None):
    """Causes at the place where two passes part, whose losses are those of their last ops."""
    losses = [each.value(len(each.ops) - 1) for each in (one, other)]
    feeds = {f"feed/0/{name}": value for name, value in FEEDS.items()}
    kinds = dict.fromkeys(WEIGHTS, "weight")
    sides = []
    for name, loss in zip(("one", "other"), losses, strict=True):
        sides.append(trace(folder / name, [{**feeds, "loss/0": loss}], kinds, {}))
        for weight, value in WEIGHTS.items():
            sides[-1].variables[weight]["shape"] = list(value.shape)
    states = trace(folder / "states", [{f"var/{name}": value for name, value in WEIGHTS.items()}], kinds, {})
    pairs = [Pair(name, (name,), parse_transform("identity"), "", value.shape) for name, value in WEIGHTS.items()]
    evidence = Evidence(Join(Mapping(pairs), {}, []), *sides, states, 2)
    check = Check("lockstep", 0, "loss/0", "different", abs(losses[1] - losses[0]), 1e-15, 1.0, abs(losses[0]))
    first = FirstDifference(check, "loss", "", "0", None)
    kept = [SimpleNamespace(ops=each.ops, value=each.value, operand=each.operand, step=0) for each in (one, other)]
    located = locate_first(first, SimpleNamespace(forward=lambda step, tower, ends_at: kept), evidence.join, sides[0])
    return with_causes_at(located, evidence, list(known))


def net(
    file, *, read="x", given=X, one="one/kernel", act=np.tanh, two=None, bias=True, loss=lambda off: (off**2).mean()
):
    """Two layers and a loss; the port does one thing otherwise."""
    before = given @ WEIGHTS["one/kernel"]
    hidden = act(before)
    product = hidden @ WEIGHTS["two/kernel"] if two is None else two(hidden)
    logits = product + bias * WEIGHTS["two/bias"]
    off = logits - Y
    ops = [("", "Identity" if given is X else "unknown", ["x"], given)]
    ops += [
        ("one/MatMul", "MatMul", [0, "one/kernel"], before),
        ("one/Tanh", act.__name__, [1], hidden),
        ("two/MatMul", "MatMul", [2, "two/kernel"], product),
    ]
    ops += [("two/BiasAdd", "BiasAdd", [3, "two/bias"], logits)] if bias else []
    ops += [("Sub", "Sub", [len(ops) - 1, "y"], off), ("Square", "Square", [len(ops)], off**2)]
    return side(file, *ops, ("Loss", "reduced", [len(ops) - 1], loss(off), {LOSS: True}))


def relu(x):
    return np.maximum(x, 0.0)


def odd(x):
    """What no rule gives."""
    return np.sin(3 * x) + 0.1


@pytest.mark.parametrize(
    ("changes", "cause", "words"),
    [
        ({"given": 3 * X}, "input_scale", "multiplies x by 3 in front of one"),
        ({"given": X + 2.0}, "input_shift", "adds 2 to x in front of one"),
        ({"act": relu}, "activation_function", "relu"),
        ({"two": lambda h: h @ WEIGHTS["two/kernel"].T}, "transposed_kernel", "two"),
        ({"bias": False}, "bias_missing", "two"),
        ({"loss": lambda off: (off**2).sum()}, "loss_reduction", ""),
    ],
)
def test_what_a_port_does_otherwise_is_named_at_its_place(tmp_path, changes, cause, words):
    found = named(tmp_path, net("model.py"), net("port.py", **changes))
    assert found and found[0].name == cause, [each.title for each in found]
    assert words in found[0].title and found[0].explains is not None


@pytest.mark.parametrize(
    ("changes", "learned"), [({"two": lambda h: h @ WEIGHTS["two/kernel"].T}, True), ({"act": relu}, False)]
)
def test_a_layer_is_learned_where_its_op_takes_a_weight(tmp_path, monkeypatch, changes, learned):
    seen = []
    monkeypatch.setattr(search, "other_rule", lambda layer: seen.append(layer.learned))
    named(tmp_path, net("model.py"), net("port.py", **changes))
    assert set(seen) == {learned}


@pytest.mark.parametrize(("beside", "kept"), [("rectifier", False), ("bias_missing", True)])
def test_what_follows_from_a_cause_is_not_named_beside_it(tmp_path, beside, kept):
    known = [Cause(beside, "", "", "")]
    names = [each.name for each in named(tmp_path, net("model.py"), net("port.py", act=relu), known)]
    assert "activation_function" in names and (beside in names) == kept


def scaled(file, scale, factor=1.0, loss=1.0):
    """The loss multiplied by a number in the end."""
    plain = net(file)
    value = plain.value(len(plain.ops) - 1) * loss
    ops = [*plain.ops[:-1], plain.ops[-1]._replace(attributes={})]
    line = SourceLine(file, 99, "loss", "return loss * scale")
    count = len(ops)
    last = ForwardOp("", "mul", [count - 1], [], [], {"1": scale, LOSS: True}, line, (Operand("0", "", count - 1, []),))
    made = [*(plain.value(number) for number in range(count)), np.asarray(value * scale * factor)]
    return plain._replace(
        ops=[*ops, last],
        value=made.__getitem__,
        operand=lambda number, at: made[count - 1] if number == count else plain.operand(number, at),
    )


@pytest.mark.parametrize(
    ("scale", "known", "names"),
    [
        (1024.0, ["gradient_factor"], ["loss_scale"]),
        (1000.0, ["gradient_factor"], ["gradient_factor"]),
    ],
)
def test_a_power_of_two_at_the_end_of_the_loss_is_a_loss_scale(tmp_path, scale, known, names):
    causes = [Cause(name, f"{name} it is", "", "") for name in known]
    found = named(tmp_path, net("model.py"), scaled("port.py", scale), causes)
    assert [cause.name for cause in found][:1] == names
    if names == ["loss_scale"]:
        assert "port.py:99" in found[0].evidence and "multiplied by 1024" in found[0].evidence


IMAGE, KERNEL = RANDOM.normal(size=(2, 5, 5, 3)), RANDOM.normal(size=(3, 3, 3, 4))


def convolution(file, image, last=True):
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    made = np.tensordot(windows, KERNEL, axes=([3, 4, 5], [2, 0, 1]))
    given, output = (each if last else np.moveaxis(each, -1, 1) for each in (image, made))
    ops = [
        ("in", "Placeholder", [], IMAGE),
        ("conv/Conv2D", "Conv2D", [0, given, "one/kernel"], output, {"strides": [1, 1, 1, 1], "padding": "VALID"}),
        ("Loss", "Mean", [1], (made**3).mean(), {LOSS: True}),
    ]
    return side(file, *ops)


@pytest.mark.parametrize("last", [True, False])
def test_an_image_that_goes_in_turned_is_told_at_its_layer(tmp_path, last):
    found = named(tmp_path, convolution("model.py", IMAGE), convolution("port.py", IMAGE.swapaxes(1, 2), last))
    assert found[0].name == "transposed_input" and "one" in found[0].title
    assert found[0].evidence == "with these axes exchanged it is what goes in on the other side, to the last bit"


def test_causes_of_inputs_are_none_of_a_place_behind_other_layers(tmp_path):
    known = [Cause(name, name, "", "") for name in ("input_scale", "gradient_factor", "weight_decay")]
    found = named(tmp_path, net("model.py"), net("port.py", act=odd), known)
    assert "weight_decay" in [cause.name for cause in found]
    assert not {"gradient_factor"} & {cause.name for cause in found}
