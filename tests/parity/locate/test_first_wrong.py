"""The op of each side that is wrong first, and the modules of the port that are, on passes made by hand."""

import numpy as np

from parity.locate.divergence import Side, differing_layers, is_drawn, part
from parity.locate.downstream import behind_difference
from parity.locate.matching import Pass, reach
from parity.trace import LOSS, ForwardOp, Operand, SourceLine

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


def test_the_cut_of_a_batch_is_not_where_passes_part_though_a_loss_hangs_on_it_in_the_port_alone():
    """Of pictures that a critic is asked about beside others; what a line of the port's own cuts may be wrong."""
    real = RANDOM.normal(size=(4, 6))
    cut = [("", "__getitem__", [], [], real), *((n, k, [i + 1 for i in at], w, v) for n, k, at, w, v in port(np.sin))]
    cut[-1] = ("", "mean", [3, 0], [], np.mean(np.sin(X @ CONV) @ FC))
    ours, theirs = sides(graph(np.tanh), cut)
    assert part(ours, theirs, MAPPING)[:2] == (1, 2)
    line = SourceLine("port.py", 3, "forward", "x[1:]")
    own = theirs._replace(ops=[theirs.ops[0]._replace(line=line), *theirs.ops[1:]])
    assert part(ours, own, MAPPING).candidate == 0


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


B = RANDOM.normal(size=(4, 6))


def two_branches(first, second, names=("", "")):
    """Two inputs of layers, something done to either, and the product of both."""
    one, two = first(X @ CONV), second(B @ CONV)
    return [
        ("conv/a" if names[0] else "a", "MatMul", [], ["conv/kernel"], X @ CONV),
        ("conv/b" if names[0] else "b", "MatMul", [], ["conv/kernel"], B @ CONV),
        ("left", names[0] or "one", [0], [], one),
        ("right", names[1] or "two", [1], [], two),
        ("product", "Mul", [2, 3], [], one * two),
        ("Mean", "Mean", [4], [], (one * two).mean()),
    ]


def test_of_several_ops_of_the_reference_the_one_that_takes_what_the_ports_takes_is_its_counterpart():
    """The port does the second branch alone wrong, and the first in one op with what follows."""
    whole = two_branches(np.tanh, np.tanh)
    theirs = [
        ("a", "linear", [], ["conv.weight"], X @ CONV),
        ("b", "linear", [], ["conv.weight"], B @ CONV),
        ("act", "sin", [1], [], np.sin(B @ CONV)),
        ("fused", "gate", [0, 2], [], np.tanh(X @ CONV) * np.sin(B @ CONV)),
        ("", "mean", [3], [], (np.tanh(X @ CONV) * np.sin(B @ CONV)).mean()),
    ]
    assert part(*sides(whole, theirs), MAPPING)[:3] == (3, 2, "act")
    turned = np.tanh(B @ CONV) * np.sin(X @ CONV)
    swapped = [
        *theirs[:2],
        ("act", "sin", [0], [], np.sin(X @ CONV)),
        ("fused", "gate", [1, 2], [], turned),
        ("", "mean", [3], [], turned.mean()),
    ]
    assert part(*sides(whole, swapped), MAPPING)[:3] == (2, 2, "act")


def test_a_sum_with_zeros_stands_in_the_place_of_the_references_bias():
    """What the port's op gives, its input, is right: the reference's op in its place is the one that parts."""
    hidden, other = X @ CONV, X @ CONV + 0.3
    ours = [
        ("conv/MatMul", "MatMul", [], ["conv/kernel"], hidden),
        ("conv/add", "AddV2", [0], [], other),
        ("Tanh", "Tanh", [1], [], np.tanh(other)),
        ("Mean", "Mean", [2], [], np.tanh(other).mean()),
    ]
    theirs = [
        ("conv", "linear", [], ["conv.weight"], hidden),
        ("shift", "add", [0], [], hidden),
        ("", "tanh", [1], [], np.tanh(hidden)),
        ("", "mean", [2], [], np.tanh(hidden).mean()),
    ]
    assert part(*sides(ours, theirs), MAPPING)[:3] == (1, 1, "shift")
    of_weights = [ours[0], (*ours[1][:3], ["fc/kernel"], other), *ours[2:]]
    reading = [theirs[0], (*theirs[1][:3], ["fc.weight"], hidden), *theirs[2:]]
    assert part(*sides(of_weights, reading), MAPPING)[:3] == (1, 1, "shift")


def test_a_layer_whose_output_is_hidden_is_wrong_only_with_the_same_input_weights_and_kind():
    other = CONV + np.eye(6) * 1e-3
    chosen = RANDOM.normal(size=(1, 6))

    def hidden(name, kind, weight, kernel, given=X):
        return [
            ("in", "Relu", [], [], given),
            (name, kind, [0], [weight], given @ kernel),
            ("Max", "max", [1], [], chosen),
            ("Sum", "sum", [2], [], chosen.sum()),
        ]

    ours = hidden("conv/MatMul", "MatMul", "conv/kernel", CONV)
    for theirs, wanted in (
        (hidden("conv", "linear", "conv.weight", other), ([1], [1])),
        (hidden("conv", "tanh", "conv.weight", other), ([], [])),
        (hidden("conv", "linear", "fc.weight", other), ([], [])),
        (hidden("conv", "linear", "conv.weight", CONV), ([], [])),
        (hidden("conv", "linear", "conv.weight", other, X + 1), ([], [])),
        (hidden("conv", "linear", "conv.weight", other[:, :3]), ([], [])),
    ):
        assert differing_layers(*sides(ours, theirs), MAPPING) == wanted


def test_an_op_is_drawn_where_all_that_it_is_made_of_are_draws():
    def op(kind, inputs=(), weights=(), operands=()):
        return ForwardOp("", kind, list(inputs), list(weights), [2], {}, None, tuple(operands))

    for kind, drawn in (("rand_like", True), ("RandomUniform", True), ("Truncated_Normal", True), ("relu", False)):
        assert is_drawn(1, [op(kind), op("mul", [0])]) is drawn
    assert not is_drawn(2, [op("rand"), op("Placeholder"), op("mul", [0, 1])])
    assert not is_drawn(2, [op("rand"), op("mm", weights=["w"]), op("mul", [0, 1])])
    assert not is_drawn(0, [op("dropout", operands=[Operand("0", "x", None, [])])]), "of something that it takes"
    assert is_drawn(2, [op("rand"), op("normal"), op("mul", [0, 1])])


def test_a_shard_that_is_cut_out_of_a_batch_is_no_difference_where_towers_are_fed_by_themselves():
    """What both sides take there is the same; only the port has an op that gives it."""
    batch, labels = RANDOM.normal(size=(8, 6)), RANDOM.normal(size=(8, 3))
    x, y = batch[:4], labels[:4]

    def taking(*values):
        return tuple(Operand(str(at), name, None, list(np.shape(value))) for at, (name, value) in enumerate(values))

    def made(act):
        return act(x @ CONV) - np.pad(y, [(0, 0), (0, 3)])

    def passes(of_labels):
        one, two = np.tanh(x @ CONV), np.sin(x @ CONV)
        reference = [
            (ForwardOp("conv", "MatMul", [], ["conv/kernel"], [4, 6], {}, None, taking(("x", x))), [x], x @ CONV),
            (ForwardOp("act", "Tanh", [0], [], [4, 6], {}), [], one),
            (
                ForwardOp("loss", "Sub", [1], [], [4, 6], {}, None, taking(("", None), ("y", y))),
                [None, y],
                made(np.tanh),
            ),
        ]
        candidate = [
            (ForwardOp("", "__getitem__", [], [], [4, 3], {}, None, taking(("", labels))), [labels], of_labels),
            (ForwardOp("conv", "linear", [], ["conv.weight"], [4, 6], {}, None, taking(("", x))), [x], x @ CONV),
            (ForwardOp("", "sin", [1], [], [4, 6], {}), [], two),
            (ForwardOp("", "sub", [2, 0], [], [4, 6], {}), [], made(np.sin)),
        ]
        return [
            Pass([op for op, *_ in side], lambda n, s=side: s[n][2], lambda n, at, s=side: s[n][1][at])
            for side in (reference, candidate)
        ]

    assert 0 not in reach(*passes(y)).told[1]
    assert 0 in reach(*passes(labels[4:])).told[1], "the shard of another tower is one"
