"""Walks over forward passes, on graphs of a few ops: who reads what, what lies behind a difference, where it begins."""

import pytest

from parity.locate.downstream import (
    active,
    beginnings,
    behind_difference,
    followers,
    losses_of,
    nearest_weights,
    readers,
    upstream,
)
from parity.locate.layer_names import common_scope, layer_names, layer_of, scope_of
from parity.locate.op_kinds import joins, picks, reduces, same
from parity.trace import LOSS, ForwardOp


def graph(*ops):
    """Ops of ``(inputs, kind, weights, shape)``, of which only the first has to be given."""
    rests = [(*op, *("op", [], [2])[len(op) - 1 :]) for op in ops]
    return [
        ForwardOp(f"o{n}", kind, inputs, weights, shape, {}) for n, (inputs, kind, weights, shape) in enumerate(rests)
    ]


DIAMOND = graph(([],), ([0],), ([0],), ([1, 2],), ([3],))


def test_ops_are_read_and_made_of_what_their_inputs_say():
    assert readers(DIAMOND) == [[1, 2], [3], [3], [4], []]
    assert (
        upstream(DIAMOND, [3]) == {0, 1, 2, 3} and upstream(DIAMOND, [1]) == {0, 1} and upstream(DIAMOND, []) == set()
    )
    of_data = graph(([],), ([], "op", ["w"]), ([0],), ([1],), ([2, 3],))
    assert active(of_data) == {1, 3, 4}


def test_weights_are_near_that_no_others_lie_in_front_of():
    ops = graph(([], "op", ["a"]), ([0], "op", ["b"]), ([1],), ([],), ([2, 3], "op", ["c"]), ([4],))
    assert nearest_weights(ops, ops[4]) == {"b", "c"} and nearest_weights(ops, ops[5]) == {"c"}
    assert nearest_weights(ops, ops[1]) == {"a", "b"} and nearest_weights(ops, ops[3]) == set()


def test_a_chain_goes_on_while_one_op_reads_and_the_shape_stays():
    chain = graph(([],), ([0],), ([1],), ([2],), ([3], "op", [], [3]), ([4],))
    assert followers(chain, 0, 4) == [1, 2, 3] and followers(chain, 0, 2) == [1, 2] and followers(chain, 0, 0) == []
    assert followers(DIAMOND, 0, 4) == [] and followers(DIAMOND, 1, 4) == [3, 4] and followers(DIAMOND, 4, 4) == []


def test_a_difference_begins_where_nothing_that_is_taken_lies_behind_it():
    assert beginnings(DIAMOND, {1, 2, 3, 4}, {1, 2, 3, 4}) == [1, 2]
    assert beginnings(DIAMOND, {1, 3, 4}, {3, 4}) == [3] and beginnings(DIAMOND, {4}, {3}) == []


def test_the_loss_is_the_op_that_is_marked_or_the_last_number_or_the_last_op():
    scalars = graph(([], "op", [], []), ([0], "op", [], []), ([1], "op", [], []), ([2],))
    assert losses_of(scalars) == [2]
    assert losses_of(scalars[:1]) == [0] and losses_of(DIAMOND) == [4], "without a scalar that is computed"
    marked = [scalars[0], scalars[1]._replace(attributes={LOSS: True}), *scalars[2:]]
    assert losses_of(marked) == [1]


@pytest.mark.parametrize(
    ("kind", "told", "reached", "behind"),
    [
        ("op", {0, 1, 2, 3, 4}, {4}, set()),  # what is right proves all that it is made of
        ("op", {0, 1, 2, 3, 4}, {0}, {1, 2, 3, 4}),
        ("op", {0, 1, 2, 3, 4}, {0, 1}, {2, 3, 4}),
        ("op", {0, 1, 2, 4}, {0}, {1, 2, 3, 4}),  # of what tells nothing, what is made of it tells
        ("op", {0, 1, 2, 3}, {0}, {1, 2, 3}),
        ("Mean", {0, 1, 2, 3, 4}, {0, 1}, {2, 3, 4}),
        ("Mean", {0, 1, 2, 3, 4}, {1}, {0, 2, 3, 4}),  # a mean proves nothing where a sibling is wrong
        ("slice", {0, 1, 2, 3, 4}, {1}, {0, 2, 3, 4}),
        ("op", {0, 1, 2, 3, 4}, {1}, {2, 3, 4}),  # but what uses every number does
        ("Mean", {0, 1, 2, 3, 4}, {1, 2}, {3, 4}),  # and so does a mean without such a sibling
        ("grad", {0, 1, 2, 3, 4}, {1}, {0, 2, 3, 4}),  # a gradient proves no more than a mean
        ("grad", {0, 1, 2, 3, 4}, {1, 2}, {3, 4}),
    ],
)
def test_what_lies_behind_a_difference_is_followed_back_from_what_is_right(kind, told, reached, behind):
    ops = [DIAMOND[0], DIAMOND[1]._replace(kind=kind), *DIAMOND[2:]]
    assert behind_difference(ops, told, reached) == behind


@pytest.mark.parametrize("kind", ["grad", "Mean", "slice"])
@pytest.mark.parametrize("between", [1, 2, 3])
def test_what_hides_numbers_proves_nothing_through_several_ops_where_something_else_is_wrong(kind, between):
    chain = [([at],) for at in range(between)]
    ops = graph(([],), *chain, ([between], kind), ([0],), ([between + 2],))
    everything, hiding = set(range(len(ops))), between + 1
    wrong = {between + 2, between + 3}
    assert behind_difference(ops, everything, {hiding}) == {0} | wrong
    assert behind_difference(ops[: hiding + 1], everything, {hiding}) == set(), "nothing else is computed from it"
    # Behind what uses every number the same chain is proven, and all that it is made of.
    assert (
        behind_difference([*ops[:hiding], ops[hiding]._replace(kind="op"), *ops[hiding + 1 :]], everything, {hiding})
        == wrong
    )


@pytest.mark.parametrize(
    ("variables", "layers"),
    [
        ({"a/kernel": (2, 3), "a/bias": (3,)}, ["a", "a"]),
        ({"a/w1": (2, 3), "a/w2": (3, 3), "a/b": (3,)}, ["a/w1", "a/w2", "a/b"]),
        ({"a/gamma": (3,), "a/beta": (3,)}, ["a", "a"]),
        ({"kernel": (2, 3), "a/b/c": (3,)}, ["kernel", "a/b"]),
        ({"net.fc.weight": (2, 3), "net.fc.bias": (3,)}, ["net.fc", "net.fc"]),
    ],
)
def test_a_layer_is_the_scope_that_a_kernel_shares_with_its_bias_or_a_variable_of_its_own(variables, layers):
    assert list(layer_names(variables).values()) == layers


LAYERS = {"dense/kernel": "dense", "net/conv/kernel": "net/conv", "net/kernel": "net"}


@pytest.mark.parametrize(
    ("name", "weights", "layer"),
    [
        ("tower_0/dense/MatMul", [], "dense"),
        ("tower_1/dense_1/MatMul", [], "dense"),
        ("tower_0/net/conv/Relu", [], "net/conv"),
        ("tower_0/net/Relu", [], "net"),
        ("tower_0/other/Relu", [], "other"),
        ("tower_0/Relu", [], "Relu"),
        ("elsewhere/Relu", [], "elsewhere"),
        ("tower_0/net/Add", ["unknown", "dense/kernel"], "dense"),
    ],
)
def test_an_op_is_of_the_layer_whose_weight_it_reads_or_whose_scope_it_is_in(name, weights, layer):
    op = ForwardOp(name, "Op", [], weights, [2], {})
    assert layer_of(op, LAYERS, "tower_0/") == layer


def test_scopes_are_whole_words_and_the_longest_counts():
    assert scope_of("tower_0/densely/MatMul", {"dense"}) == "" == scope_of("dense", {"dense"})
    assert scope_of("a/b/c/Op", {"a", "b/c", "a/b/c"}) == "a/b/c" and scope_of("a/b_12/Op", {"a/b"}) == "a/b"
    assert common_scope(["t/a/x", "t/a/y/z"]) == "t/a/" and common_scope(["t/a/x", "u/a/x"]) == ""
    assert common_scope([]) == "" == common_scope(["x", "t/x"]) and common_scope(["t/x"]) == "t/"


def test_ops_of_both_sides_are_of_one_kind_by_name_or_by_family():
    for one, other in (
        ("MatMul", "linear without bias"),
        ("BiasAdd", "__add__"),
        ("Relu", "relu"),
        ("GatherV2", "embedding"),
    ):
        assert same(one, other) and same(other, one)
    assert not same("MatMul", "Relu") and not same("MaxPool", "avg_pool2d")
    kinds = {kind: ForwardOp("", kind, [], [], [], {}) for kind in ("ConcatV2", "StridedSlice", "Mean", "Add")}
    for test, kind in ((joins, "ConcatV2"), (picks, "StridedSlice"), (reduces, "Mean")):
        assert [name for name, op in kinds.items() if test(op)] == [kind]
