"""What a port reads in the place of an input is found in two forward passes: on made arrays, without a framework."""

import numpy as np
import pytest

from parity.diagnose.located.op_inputs import cause_of_input
from parity.diagnose.located.ops import scale_of_loss
from parity.locate import locate
from parity.locate.matching import Pass
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(8)
FRAMES, WEIGHTS = RANDOM.normal(size=(6, 2, 5)), np.array([1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
KERNEL, SHAPES = RANDOM.normal(size=(10, 4)), {"fc/kernel": (10, 4)}


def passed(*ops):
    """A pass of ``(name, kind, takes, output, attributes)``: an int is an op before, a str a weight, a pair an input."""
    listed, values, taken = [], [], []
    for name, kind, takes, output, *rest in ops:
        operands, given = [], []
        for at, each in enumerate(takes):
            source = each if isinstance(each, int) else None
            named = each if isinstance(each, str) else each[0] if isinstance(each, tuple) else ""
            value = values[each] if source is not None else KERNEL if isinstance(each, str) else each
            given.append(np.asarray(value[1] if isinstance(value, tuple) else value))
            operands.append(Operand(str(at), named, source, list(given[-1].shape)))
        inputs = [each for each in takes if isinstance(each, int)]
        weights = [each for each in takes if isinstance(each, str)]
        attributes = rest[0] if rest else {}
        listed.append(ForwardOp(name, kind, inputs, weights, list(np.shape(output)), attributes, None, tuple(operands)))
        values.append(np.asarray(output))
        taken.append(given)
    return Pass(listed, values.__getitem__, lambda number, at: taken[number][at])


def net(kernel, frames=FRAMES, weights=WEIGHTS, scale=0.0):
    """A product with frames, flat, and the weighted sum of its squares; the port does one thing to what it reads."""
    own = frames is FRAMES
    made = FRAMES if own else frames
    flat = made.reshape(6, 10) @ KERNEL
    each = (flat**2).mean(1)
    ops = [
        ("split", "Split", [("frames", FRAMES)], FRAMES),
        ("split_1", "Split", [("weights", WEIGHTS)], WEIGHTS),
        *([] if own else [("", "mul", [0], made)]),
    ]
    first = len(ops)
    ops += [
        ("fc", "matmul", [0 if own else 2, kernel], flat),
        ("Square", "square", [first], flat**2),
        ("Mean", "mean", [first + 1], each),
        ("mul", "mul", [first + 2, 1 if weights is WEIGHTS else weights], each * weights),
        ("Sum", "sum", [first + 3], (each * weights).sum()),
    ]
    if scale:
        ops.append(("", "mul", [first + 4], scale * (each * weights).sum(), {"1": scale}))
        ops.append(("", "add", [first + 5], scale * (each * weights).sum(), {"1": 0.0, "loss": True}))
    return passed(*ops)


def parted(**other):
    return locate(net("fc/kernel"), net("fc.weight", **other), {"fc/kernel": ["fc.weight"]}, SHAPES)


@pytest.mark.parametrize(
    ("other", "name", "words"),
    [
        ({"frames": FRAMES * 1.5}, "input_scale", "the port multiplies frames by 1.5 in front of fc"),
        ({"frames": FRAMES - 0.5}, "input_shift", "the port adds -0.5 to frames in front of fc"),
        ({"frames": FRAMES[:, ::-1]}, "reversed_input", "the port reverses the steps of frames in front of fc"),
        (
            {"weights": np.ones(6)},
            "input_ignored",
            "does not use weights, it takes 1 for all its numbers in front of mul",
        ),
    ],
)
def test_what_is_done_to_an_input_is_named_where_it_is_read(other, name, words):
    cause = cause_of_input(parted(**other), ["frames", "weights"])
    assert (cause.name, words in cause.title) == (name, True)


def test_what_a_right_port_reads_before_it_scales_it_is_no_input_of_the_layer():
    pixels = np.round(100.0 * FRAMES)  # whole numbers, which no side is said to reach
    sides = []
    for weight, arranged in (("fc/kernel", pixels), ("fc.weight", np.roll(pixels, 1, axis=2))):
        made = arranged / 127.5 - 1.0
        flat = made.reshape(6, 10) @ KERNEL
        sides.append(
            passed(
                ("", "Split", [("frames", pixels)], pixels),
                ("", "roll", [0], arranged),
                ("", "sub", [1], made),
                ("fc", "matmul", [2, weight], flat),
                ("Mean", "mean", [3], flat.mean()),
            )
        )
    place = locate(*sides, {"fc/kernel": ["fc.weight"]}, SHAPES)
    assert place.layer == "fc"
    assert cause_of_input(place, ["frames"]) is None


@pytest.mark.parametrize("paddings", [1, 2])
def test_an_input_that_is_padded_before_it_is_read_is_compared_as_it_was(paddings):
    image = RANDOM.normal(size=(2, 5, 2))

    def side(read, weight):
        ops = [("", "Split", [("image", image)], image), ("", "mul", [0], read)]
        for number in range(paddings):
            ops.append(("", "pad", [number + 1], np.pad(ops[-1][3], ((0, 0), (1, 0), (0, 0)))))
        made = ops[-1][3].reshape(2, -1)
        flat = np.concatenate([made, made], 1)[:, :10] @ KERNEL
        ops += [("fc", "conv1d", [paddings + 1, weight], flat), ("Mean", "mean", [paddings + 2], (flat**2).mean())]
        return passed(*ops)

    right, wrong = side(image, "fc/kernel"), side(image[:, ::-1], "fc.weight")
    unpadded = [right.ops[0], *(op._replace(inputs=[0]) for op in right.ops[-2:-1]), right.ops[-1]]
    direct = Pass(
        [unpadded[0], unpadded[1]._replace(operands=(Operand("0", "", 0, [2, 5, 2]), right.ops[-2].operands[1])),
         unpadded[2]._replace(inputs=[1], operands=(Operand("0", "", 1, []),))],
        lambda number: right.value([0, paddings + 2, paddings + 3][number]),
        lambda number, at: image if (number, at) == (1, 0) else right.operand([0, paddings + 2, paddings + 3][number], at),
    )  # fmt: skip
    place = locate(direct, wrong, {"fc/kernel": ["fc.weight"]}, SHAPES)
    assert cause_of_input(place, ["image"]).name == "reversed_input"


def test_other_numbers_of_what_is_no_input_are_not():
    assert cause_of_input(parted(weights=np.ones(6)), ["frames"]) is None
    assert cause_of_input(parted(frames=FRAMES**3), ["frames", "weights"]) is None


@pytest.mark.parametrize(("scale", "known"), [(1024.0, 1024.0), (1000.0, None), (32.0, None)])
def test_a_power_of_two_that_the_whole_loss_is_multiplied_by_in_the_end_is_a_loss_scale(scale, known):
    assert scale_of_loss(parted(scale=scale)) == known


def test_a_power_of_two_that_is_a_number_of_something_is_no_loss_scale():
    place = parted(scale=64.0)
    assert scale_of_loss(place) == 64.0
    large = place.passes[1].ops[0]._replace(shape=[8, 8])
    port = place.passes[1]._replace(ops=[large, *place.passes[1].ops[1:]])
    assert scale_of_loss(place._replace(passes=(place.passes[0], port))) is None
