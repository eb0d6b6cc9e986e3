"""Losses are taken apart into terms: what counts otherwise, is left out or added is named, and only that."""

import numpy as np
import pytest

from parity.diagnose.layers.linear_terms import terms_of
from parity.diagnose.layers.loss_sums import sums_of
from parity.diagnose.layers.loss_terms import other_terms
from parity.locate.matching import Pass, reach
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(0)
EACH = RANDOM.uniform(0.1, 2.0, size=(4, 5))
OTHER = RANDOM.uniform(0.1, 2.0, size=(4, 3))
MASK = (np.arange(5) < np.array([5, 3, 4, 1])[:, None]).astype(np.float64)
COUNT = float(MASK.sum())
WEIGHTS = np.random.default_rng(1).uniform(0.5, 3.0, size=EACH.shape)


def passed(*ops):
    """A pass of ``(kind, inputs, value)``; the first two are what both layers give."""
    given = [("MatMul", [], EACH, ["w"]), ("MatMul", [], OTHER, ["v"]), *[(*op, []) for op in ops]]
    listed = [
        ForwardOp(f"{kind}_{n}", kind, inputs, weights, list(np.shape(value)), {})
        for n, (kind, inputs, value, weights) in enumerate(given)
    ]
    values = [None if value is None else np.asarray(value) for _, _, value, _ in given]
    return Pass(listed, lambda n: values[n])


def loss_of(each, other, ways=("Mean", "Mean"), share=1.0):
    """The op's of a loss of two terms."""
    sums = [getattr(x, way.lower())() for x, way in zip((EACH, OTHER), ways, strict=True)]
    return [
        (ways[0], [0], sums[0]),
        (ways[1], [1], sums[1]),
        ("Mul", [3], share * sums[1]),
        ("Add", [2, 4], sums[0] + share * sums[1]),
    ]


def cause(one, other):
    sides = passed(*one), passed(*other)
    losses = tuple(float(side.value(len(side.ops) - 1)) for side in sides)
    sums = sums_of(*sides, reach(*sides), losses)
    return other_terms(sums) if sums is not None else None


def test_a_term_that_counts_twice_is_named():
    named = cause(loss_of(EACH, OTHER, share=0.5), loss_of(EACH, OTHER))
    assert named.name == "loss_term"
    assert named.title == "the term Mean_3 of the loss counts 1 times in the candidate, 0.5 times in the reference"


def test_a_term_of_the_other_sign_is_named_where_another_is_computed_in_other_steps():
    """The reference squares before it adds up; the port has the sum of squares at once."""
    squares, other = EACH**2, OTHER.mean()
    one = [("Square", [0], squares), ("Mean", [2], squares.mean()), ("Mean", [1], other)]
    at_once = [("mse_of", [0], squares.mean()), ("mean", [1], other)]
    named = cause([*one, ("Add", [3, 4], squares.mean() + other)], [*at_once, ("sub", [2, 3], squares.mean() - other)])
    assert named.name == "loss_term"
    assert "counts -1 times" in named.title


def by_labels(labels):
    """A mean of one term where a label is 1, and of another where it is 0."""
    one, other = np.log(EACH + 2.0), np.log(EACH + 7.0)
    parts = labels * one, (1.0 - labels) * other
    return [
        ("Log", [0], one),
        ("Log", [0], other),
        ("Mul", [2], parts[0]),
        ("Mul", [3], parts[1]),
        ("Add", [4, 5], sum(parts)),
        ("Mean", [6], sum(parts).mean()),
    ]


def test_other_labels_are_no_other_reduction():
    labels = (RANDOM.uniform(size=EACH.shape) > 0.5).astype(np.float64)
    moved = labels.copy()
    moved[0, :3] = 1.0 - moved[0, :3]
    named = cause(by_labels(labels), by_labels(moved))
    assert (named.name, "has other labels" in named.title) == ("loss_function", True)
    # What counts in neither term is left out: a mask.
    masked = by_labels(labels)
    masked[2:4] = [(kind, at, value * MASK) for kind, at, value in masked[2:4]]
    total = masked[2][2] + masked[3][2]
    masked[4:] = [("Add", [4, 5], total), ("Mean", [6], total.mean())]
    assert cause(by_labels(labels), masked).name == "loss_reduction"


@pytest.mark.parametrize(
    ("whole", "kind", "name"),
    [(1.0, "LogSoftmax", "cross_entropy"), (0.9, "LogSoftmax", "loss_reduction"), (1.0, "Log", "loss_reduction")],
)
def test_targets_that_are_smoothed_otherwise_are_another_cross_entropy(whole, kind, name):
    logs, hot = np.log(EACH / EACH.sum(-1, keepdims=True)), np.eye(5)[[3, 0, 4, 1]]

    def loss(targets):
        parts = logs * targets
        ops = [(kind, [0], logs), ("Identity", [], targets), ("Mul", [2, 3], parts), ("Sum", [4], parts.sum())]
        return [*ops, ("Mul", [5], -parts.sum() / 4)]

    named = cause(loss(0.9 * hot + 0.1 / 5), loss(whole * (hot * (0.9 - 0.1 / 4) + 0.1 / 4)))
    assert named.name == name and (name != "cross_entropy" or "targets" in named.title)


def test_labels_that_are_inverted_are_named_and_no_mask():
    near, far = (RANDOM.uniform(0.1, 2.0, size=8) for _ in range(2))
    labels = np.array([1.0, 0, 0, 1, 1, 0, 1, 0])

    def loss(y):
        ops = [ForwardOp("a", "MatMul", [], ["w"], [8], {}), ForwardOp("b", "MatMul", [], ["v"], [8], {})]
        values = [near, far, y * near, (1 - y) * far, y * near + (1 - y) * far]
        ops += [ForwardOp("c", "Mul", [0], [], [8], {}), ForwardOp("d", "Mul", [1], [], [8], {})]
        ops += [ForwardOp("e", "Add", [2, 3], [], [8], {}), ForwardOp("f", "Mean", [4], [], [], {})]
        values.append(np.asarray(values[-1].mean()))
        return Pass(ops, lambda n: values[n]), float(values[-1])

    (one, a), (other, b) = loss(labels), loss(1 - labels)
    named = other_terms(sums_of(one, other, reach(one, other), (a, b)))
    assert (named.name, named.title.startswith("the labels are inverted")) == ("loss_function", True)


def test_a_term_that_happens_to_be_0_is_not_left_out():
    a, b = EACH.mean(), (OTHER**2).mean()
    one = [("Mean", [0], a), ("Square", [1], OTHER**2), ("Mean", [3], b), ("Add", [2, 4], a + b)]
    zeros = np.zeros_like(OTHER)
    other = [("mean", [0], a), ("clamp", [1], zeros), ("mean", [3], np.zeros(())), ("add", [2, 4], a)]
    assert cause(one, other) is None
    assert cause(one, [*other, ("clone", [5], a)]) is None


def test_a_term_that_is_left_out_is_named_and_one_that_is_added():
    alone = [("Mean", [0], EACH.mean()), ("Mul", [2], 2 * EACH.mean())]
    both = [*alone, ("Mean", [1], OTHER.mean()), ("Add", [3, 4], 2 * EACH.mean() + OTHER.mean())]
    left_out, added = cause(both, alone), cause(alone, both)
    assert left_out.name == added.name == "loss_term"
    assert "lacks a term" in left_out.title
    assert "has a term that the reference's has not" in added.title


def test_several_terms_that_count_otherwise_are_all_told():
    named = cause(loss_of(EACH, OTHER), loss_of(EACH, OTHER, ("Sum", "Mean"), 3.0))
    assert named.name == "loss_term"
    assert "MatMul_0 counts the sum, not the mean" in named.evidence and "Mul_4 counts 3 times" in named.evidence
    reduced = cause(loss_of(EACH, OTHER), loss_of(EACH, OTHER, ("Sum", "Sum")))
    assert reduced.name == "loss_reduction"
    assert "MatMul_0" in reduced.evidence and len(reduced.evidence.split(";")) == 2


def test_a_sum_instead_of_a_mean_is_named_where_another_term_is_the_same():
    named = cause(loss_of(EACH, OTHER), loss_of(EACH, OTHER, ("Sum", "Mean")))
    assert named.name == "loss_reduction"
    assert named.title == "the candidate's loss takes the sum of MatMul_0, the reference's the mean"


def test_a_mean_over_all_instead_of_over_what_counts_is_named():
    masked = [("Mul", [0], EACH * MASK), ("Sum", [2], (EACH * MASK).sum())]
    one = [*masked, ("RealDiv", [3], (EACH * MASK).sum() / COUNT)]
    other = [masked[0], ("mean", [2], (EACH * MASK).mean())]
    named = cause(one, other)
    assert named.name == "loss_reduction"
    assert "1/20" in named.title or "the mean of" in named.title


@pytest.mark.parametrize("kept", [MASK, 1.0 - MASK])
def test_what_a_mask_leaves_out_is_named(kept):
    def masked(mask):
        values = EACH * mask
        picked = EACH[mask.astype(bool)]
        return values, picked

    values, _ = masked(kept)
    one = [("Mul", [0], values), ("Sum", [2], values.sum())]
    named = cause(one, [("Sum", [0], EACH.sum())])
    assert named.name == "loss_reduction"
    picked = EACH[kept.astype(bool)]
    assert cause([("GatherV2", [0], picked), ("Mean", [2], picked.mean())], [("Mean", [0], EACH.mean())]).name == (
        "loss_reduction"
    )


def test_all_terms_divided_by_another_number_are_named_as_one():
    def loss(count):
        a, b = EACH.sum(), OTHER.sum()
        return [
            ("Sum", [0], a),
            ("Sum", [1], b),
            ("RealDiv", [2], a / count),
            ("RealDiv", [3], b / count),
            ("Add", [4, 5], a / count + b / count),
        ]

    named = cause(loss(8), loss(46))
    assert named.name == "loss_reduction"
    assert "4/23" in named.title


def test_a_constant_is_named_and_no_more_than_that():
    named = cause([("Mean", [0], EACH.mean())], [("Mean", [0], EACH.mean()), ("add", [2], EACH.mean() + 0.25)])
    assert named.title == "the candidate adds the constant 0.25 to the loss, the reference 0"


def test_what_only_weights_add_is_no_constant():
    def decayed(share):
        ops = [("Mean", [0], EACH.mean()), ("Add", [2], EACH.mean() + share)]
        side = passed(*ops)
        side.ops[-1] = side.ops[-1]._replace(weights=["w"])
        return side

    one, other = decayed(0.5), decayed(0.25)
    losses = EACH.mean() + 0.5, EACH.mean() + 0.25
    assert other_terms(sums_of(one, other, reach(one, other), losses)) is None


def test_a_term_is_not_left_out_alone_where_what_weights_add_differs_too():
    def loss(rest, constant):
        value = rest + EACH.mean() + constant
        side = passed(("Mean", [0], EACH.mean()), ("Add", [2], EACH.mean() + constant), *last(rest, value))
        side.ops[3] = side.ops[3]._replace(weights=["w"])
        return side, value

    def last(rest, value):
        return [("Mean", [1], OTHER.mean()), ("Add", [3, 4], value)] if rest else []

    for constant, name in ((0.5, "loss_term"), (0.5001, None)):
        (one, a), (other, b) = loss(OTHER.mean(), 0.5), loss(0.0, constant)
        named = other_terms(sums_of(one, other, reach(one, other), (a, b)))
        assert (named.name if named else None) == name


def test_what_torch_makes_of_the_losses_of_examples_is_their_sum_or_that_over_what_counts():
    each, weights = np.array([0.5, 2.0, 0.25, 1.5]), np.array([1.0, 3.0, 1.0, 3.0])

    def terms(values, made, kind="nll_loss of each", weighted=False):
        given = [("MatMul", [], EACH, ["w"]), (kind, [0], each, [])]
        given += [(f"{kind}, weighted", [1], values, [])] if weighted else []
        given += [("nll_loss", [len(given) - 1], np.asarray(made), [])]
        ops = [ForwardOp("", k, taken, names, list(np.shape(v)), {}) for k, taken, v, names in given]
        return terms_of(ops, lambda n: given[n][2], len(ops) - 1, {0, len(ops) - 2}).terms

    for factor in (1.0, 0.25):
        assert terms(each, factor * each.sum())[0].factor == pytest.approx(factor)
    (of_weighted,) = terms(each * weights, (each * weights).sum() / 8.0, weighted=True)
    assert of_weighted.factor == pytest.approx(1 / 8)
    each[3] = 0.0  # of a label that is ignored
    assert terms(each, each.sum() / 3)[0].factor == pytest.approx(1 / 3)
    for values, made, kind in ((each, -0.77, "nll_loss of each"), (each, each.sum() / 4, "MatMul")):
        (term,) = terms(values, made, kind)
        assert (term.value.size, term.factor) == (1, 1.0)  # the loss itself: it is not taken apart


def test_what_is_no_sum_of_common_terms_is_not_named():
    assert cause([("Square", [0], EACH**2), ("Mean", [2], (EACH**2).mean())], [("Mean", [0], EACH.mean())]) is None
    for seed in range(20):
        random = np.random.default_rng(seed)
        noise = random.normal(size=EACH.shape)
        one = [("Exp", [0], np.exp(EACH)), ("Mean", [2], np.exp(EACH).mean())]
        other = [("exp", [0], np.exp(EACH + noise)), ("mean", [2], np.exp(EACH + noise).mean())]
        assert cause(one, other) is None


@pytest.mark.parametrize(
    ("share", "name"),
    [(200 / 201, "gradient_factor"), (5 / 4, "loss_reduction"), (1 / 4, "loss_reduction"), (0.1234567, "loss_term")],
)
def test_a_factor_of_all_that_data_bring_is_no_reduction_of_fewer_numbers(share, name):
    """20 numbers are reduced: none of them is counted 200 times of 201."""
    mean = EACH.mean()
    decay = ("L2Loss", [], np.asarray(3.0), ["w"])

    def loss(factor):
        ops = [("Mean", [0], mean), ("Mul", [2], factor * mean)]
        given = passed(*ops)
        listed = [
            *given.ops,
            ForwardOp("L2Loss_4", "L2Loss", [], ["w"], [], {}),
            ForwardOp("Add_5", "Add", [3], ["w"], [], {}),
        ]
        values = [*(given.value(n) for n in range(4)), decay[2], np.asarray(factor * mean + 3.0)]
        return Pass(listed, lambda n: values[n])

    sides = loss(1.0), loss(share)
    losses = tuple(float(side.value(5)) for side in sides)
    named = other_terms(sums_of(*sides, reach(*sides), losses))
    assert named.name == name
    assert named.evidence.endswith("does not reach what weights alone add") == (name == "gradient_factor")


def test_a_stack_of_what_both_have_is_taken_apart():
    stacked = np.stack([EACH[:, t] for t in range(5)])
    one = [("Sum", [0], EACH.sum())]
    assert cause(one, [("stack", [0], stacked), ("mean", [2], stacked.mean())]).name == "loss_reduction"


def test_one_minus_a_score_is_told_from_the_score_minus_one():
    def side(score):
        operands = (Operand("0", "", None, [], 1.0), Operand("1", "", 2, []))
        taken = passed(("Mean", [0], score), ("Sub", [2], 1.0 - score), ("Mul", [3], 3.0 * (1.0 - score)))
        taken.ops[3] = taken.ops[3]._replace(operands=operands)
        return taken

    one, other = side(EACH.mean()), passed(("Mean", [0], EACH.mean()))
    sums = sums_of(one, other, reach(one, other), (3.0 * (1.0 - EACH.mean()), EACH.mean()))
    (term,) = sums.reference.values()
    assert (term.factor, sums.constants[0]) == (-3.0, 3.0)


def test_a_sum_over_the_sum_of_its_weights_in_place_of_a_mean_is_another_reduction_and_no_other_weight():
    def loss(divisor, of_weights):
        """The first term's mean, and the second's sum by some number, beside the sum of what may be weights."""
        *terms, total = loss_of(EACH, OTHER, ("Mean", "Sum"), share=1 / divisor)
        return [*terms, ("Sum", [], of_weights), total]

    mean, weights = loss(OTHER.size, 1.0), 4.3728172
    assert cause(mean, loss(weights, weights)).name == "loss_reduction"
    assert cause(mean, loss(weights, 1.0)).name == "loss_term"
    assert cause(loss(weights, weights), loss(weights / 0.1234567, weights)).name == "loss_term"


@pytest.mark.parametrize("turned", [EACH.T, EACH.reshape(20, 1), EACH[None]])
def test_an_output_that_is_read_in_two_layouts_is_one_term(turned):
    def loss(way):
        one, other = (getattr(value, way.lower())() for value in (EACH, turned))
        made = [("Transpose", [0], turned), (way, [0], one), (way, [2], other), ("Mul", [4], 0.5 * other)]
        return [*made, ("Add", [3, 5], one + 0.5 * other)]

    named = cause(loss("Mean"), loss("Sum"))
    assert named.name == "loss_reduction"
    assert "it counts 20 times as much in the candidate" in named.evidence


def normalised(divisor, kind="Max", coefficient=1.0):
    """The mean of weighted losses, the weights over one number of them, and another term."""
    shares = WEIGHTS / divisor
    value = (shares * EACH).mean() * coefficient
    return [
        ("Identity", [], WEIGHTS),
        (kind, [2], np.asarray(divisor)),
        ("RealDiv", [2, 3], shares),
        ("Mul", [4, 0], shares * EACH),
        ("Mean", [5], (shares * EACH).mean()),
        ("Mul", [6], value),
        ("Mean", [1], OTHER.mean()),
        ("Add", [7, 8], value + OTHER.mean()),
    ]


def test_weights_that_are_normalised_by_another_number_of_them_are_another_mean_and_no_coefficient():
    named = cause(normalised(WEIGHTS.max()), normalised(WEIGHTS.mean(), "mean"))
    assert named.name == "loss_reduction"
    said = f"the candidate divides by {WEIGHTS.mean():.9g} of the data, the reference by {WEIGHTS.max():.9g}"
    assert said in named.evidence


def test_a_coefficient_beside_weights_that_both_sides_normalise_alike_is_one():
    ratio = WEIGHTS.max() / WEIGHTS.mean()
    named = cause(normalised(WEIGHTS.max()), normalised(WEIGHTS.max(), coefficient=ratio))
    assert named.name == "loss_term"
    # And neither is a number of which nothing says that it was divided by.
    named = cause(normalised(WEIGHTS.max()), normalised(WEIGHTS.mean(), "mean", 0.7316))
    assert named.name == "loss_term"


def test_an_epsilon_beside_a_count_of_whole_numbers_is_another_divisor_and_no_coefficient():
    """A pass keeps no whole numbers: the count is known from where it is cast on."""

    def counted(epsilon):
        divisor = COUNT + epsilon
        value = (WEIGHTS * EACH).sum() / divisor
        return [
            ("Identity", [], WEIGHTS),
            ("Equal", [], None),
            ("Sum", [3], None),
            ("Cast", [4], np.asarray(COUNT)),
            ("AddV2", [5], np.asarray(divisor)),
            ("Mul", [2, 0], WEIGHTS * EACH),
            ("Sum", [7], (WEIGHTS * EACH).sum()),
            ("RealDiv", [8, 6], value),
            ("Mean", [1], OTHER.mean()),
            ("Add", [9, 10], value + OTHER.mean()),
        ]

    sides = []
    for epsilon in (0.0, 1e-3):
        side = passed(*counted(epsilon))
        # The comparison has a number for each of the mask's.
        ops = [op._replace(shape=[4, 5]) if op.kind == "Equal" else op for op in side.ops]
        sides.append(side._replace(ops=ops))
    losses = tuple(float(side.value(len(side.ops) - 1)) for side in sides)
    named = other_terms(sums_of(*sides, reach(*sides), losses))
    assert named.name == "loss_reduction" and f"divides by {COUNT + 1e-3:.9g} of the data" in named.evidence
