"""The op of each side that is wrong first, and the modules of the port that are, on passes made by hand."""

import numpy as np

from parity.locate.divergence import Side, differing_layers, part
from parity.locate.downstream import behind_difference
from parity.locate.matching import Pass, reach
from parity.trace import LOSS, ForwardOp

MAPPING = {"conv/kernel": ("conv.weight",), "fc/kernel": ("fc.weight",)}
RANDOM = np.random.default_rng(3)
X, CONV, FC = RANDOM.normal(size=(4, 6)), RANDOM.normal(size=(6, 6)), RANDOM.normal(size=(6, 3))


def sides(reference, candidate):
    """Both sides of passes that are lists of (name, kind, inputs, weights, value)."""
    passes = []
    for ops in (reference, candidate):
        listed = [
            ForwardOp(name, kind, inputs, weights, list(np.shape(v)), {}) for name, kind, inputs, weights, v in ops
        ]
        values = [None if v is None else np.asarray(v, np.float64) for *_, v in ops]
        passes.append(Pass(listed, values.__getitem__))
    found = reach(*passes)
    return tuple(
        Side(each.ops, told, reached, behind_difference(each.ops, told, reached))
        for each, told, reached in zip(passes, found.told, (found.reference, found.candidate), strict=True)
    )


def graph(act, out=np.mean):
    conv = X @ CONV
    hidden = act(conv)
    return [
        ("conv/Conv2D", "Conv2D", [], ["conv/kernel"], conv),
        ("Act", "Act", [0], [], hidden),
        ("fc/MatMul", "MatMul", [1], ["fc/kernel"], hidden @ FC),
        ("Mean", "Mean", [2], [], out(hidden @ FC)),
    ]


def port(act, names=("conv", "", "fc", ""), kernel=CONV):
    hidden = act(X @ kernel)
    return [
        (names[0], "conv2d", [], ["conv.weight"], X @ kernel),
        (names[1], "act", [0], [], hidden),
        (names[2], "linear", [1], ["fc.weight"], hidden @ FC),
        (names[3], "mean", [2], [], np.mean(hidden @ FC)),
    ]


def test_a_function_between_modules_is_named_with_its_caller_and_the_module_that_it_feeds():
    found = part(*sides(graph(np.tanh), port(np.sin)), MAPPING)
    assert found == (1, 1, "", "fc")


def test_a_function_inside_of_a_layer_is_that_layers():
    names = ("body.conv", "body.act", "head.fc", "")
    assert part(*sides(graph(np.tanh), port(np.sin, names)), MAPPING) == (1, 1, "body.act", None)


def test_what_the_loss_does_not_depend_on_is_not_where_passes_part():
    moved = (
        "conv",
        "lerp_",
        [0],
        [],
        (X @ CONV).mean(0) * 0.1,
    )  # a moving statistic, which the reference has elsewhere
    theirs = port(np.sin)
    theirs = [theirs[0], moved, *((name, kind, [2 if i == 1 else i and i + 1 for i in inputs], weights, value)
              for name, kind, inputs, weights, value in theirs[1:])]  # fmt: skip
    assert part(*sides(graph(np.tanh), theirs), MAPPING).candidate == 2


def test_the_loss_is_the_one_that_is_said_to_be():
    reference, candidate = sides(graph(np.tanh), [*port(np.sin), ("", "accuracy", [0], [], np.float64(0.37))])
    assert part(reference, candidate, MAPPING).candidate == 4  # taken for the loss
    marked = [op._replace(attributes={LOSS: True}) if number == 3 else op for number, op in enumerate(candidate.ops)]
    assert part(reference, candidate._replace(ops=marked), MAPPING).candidate == 1


def test_other_steps_to_the_same_numbers_are_no_parting():
    steps = [("", "half", [0], [], X @ CONV / 2.3), ("", "rest", [1], [], np.tanh(X @ CONV))]
    theirs = port(np.tanh)
    theirs = [theirs[0], *steps, ("fc", "linear", [2], ["fc.weight"], np.tanh(X @ CONV) @ FC),
              ("", "sum", [3], [], np.sum(np.tanh(X @ CONV) @ FC))]  # fmt: skip
    assert part(*sides(graph(np.tanh), theirs), MAPPING)[:3] == (3, 4, "")


def test_a_layer_is_wrong_though_a_maximum_behind_it_is_right():
    other = CONV + np.eye(6) * 1e-3
    hidden, wrong = X @ CONV, X @ other
    chosen = RANDOM.normal(size=(1, 6))
    ours = [
        ("conv/Conv2D", "Conv2D", [], ["conv/kernel"], hidden),
        ("Max", "Max", [0], [], chosen),
        ("fc/MatMul", "MatMul", [0], ["fc/kernel"], hidden @ FC),
        ("Sum", "Sum", [1, 2], [], np.sum(hidden @ FC)),
    ]
    theirs = [
        ("conv", "conv2d", [], ["conv.weight"], wrong),
        ("", "max", [0], [], chosen),
        ("fc", "linear", [0], ["fc.weight"], wrong @ FC),
        ("", "sum", [1, 2], [], np.sum(wrong @ FC)),
    ]
    reference, candidate = sides(ours, theirs)
    assert part(reference, candidate, MAPPING).module == "conv"
    found = differing_layers(reference, candidate, MAPPING)
    assert found == ([0], [0])
    with_them = [
        side._replace(wrong=set(side.wrong) | set(each))
        for side, each in zip((reference, candidate), found, strict=True)
    ]
    assert part(*with_them, MAPPING) == (0, 0, "conv", None)


def test_masks_and_draws_that_a_port_makes_its_own_way_do_not_hide_what_takes_them():
    mask = np.array([[1.0], [0.0], [1.0], [1.0]])
    drawn = ("", "rand", [], [], RANDOM.random((4, 6)))
    theirs = [drawn, ("", "mul", [0], [], drawn[4] * 3), ("", "lt", [], [], mask)]
    theirs += [("conv", "conv2d", [1, 2], ["conv.weight"], X @ CONV * 1.5)]
    theirs += [("fc", "linear", [3], ["fc.weight"], X @ CONV @ FC), ("", "mean", [4], [], 0.77)]
    assert part(*sides(graph(np.tanh), theirs), MAPPING).candidate == 3
