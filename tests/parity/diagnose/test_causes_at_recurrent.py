"""A recurrent layer is run again over its steps: the rule is named that gives the candidate's outputs, and none else."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.layers import recurrent as at_recurrent
from parity.diagnose.layers.recurrent import Recurrent, other_last, other_recurrence
from parity.diagnose.layers.recurrent_cells import Cell, Way, over_steps, step_of, weights_of
from parity.diagnose.located.recurrent import (
    _in_steps_of,
    _whole_numbers,
    recurrent_layers,
    sequences_of,
    shared_scopes,
)
from parity.locate.matching import Pass
from parity.trace import ForwardOp, Operand

RANDOM = np.random.default_rng(0)
X, LENGTHS = RANDOM.normal(size=(3, 5, 3)), np.array([5, 2, 3])
BEGINS = (RANDOM.uniform(size=(3, 5)) < 0.4).astype(np.float64)
LSTM = {"cell/kernel": RANDOM.normal(size=(7, 16)), "cell/bias": RANDOM.normal(size=16)}
GRU = {
    "cell/gates/kernel": RANDOM.normal(size=(7, 8)),
    "cell/gates/bias": RANDOM.normal(size=8),
    "cell/candidate/kernel": RANDOM.normal(size=(7, 4)),
    "cell/candidate/bias": RANDOM.normal(size=4),
}
CUDNN = {
    "W": RANDOM.normal(size=(3, 12)),
    "U": RANDOM.normal(size=(4, 12)),
    "b_w": RANDOM.normal(size=12),
    "b_u": RANDOM.normal(size=12),
}
PROJECTED = {
    "cell/kernel": RANDOM.normal(size=(3 + 4, 24)),
    "cell/bias": RANDOM.normal(size=24),
    "cell/projection/kernel": RANDOM.normal(size=(6, 4)),
}
STATES = {"c": RANDOM.normal(size=(3, 4)), "h": RANDOM.normal(size=(3, 4))}
BASIC, RESET = Cell("LSTM", "ijfo", 1.0), Cell("GRU", "rzh")


def outputs(variables, cell, state=None, **way):
    _, weights = next(each for each in weights_of(variables) if each[0] == cell.kind)
    zeros = tuple(np.zeros((3, size)) for size in weights.sizes[-2 if cell.kind == "LSTM" else -1 :])
    return over_steps(step_of(cell, weights), X, state or zeros, Way(**way)).steps


def cause(variables, reference, candidate, read=()):
    layer = Recurrent("cell", variables, {"x": X}, STATES, {"n": LENGTHS}, {"b": BEGINS}, [reference], [candidate])
    return other_recurrence(layer._replace(read=read))


@pytest.mark.parametrize(
    ("variables", "cell", "other", "name", "words"),
    [
        (LSTM, BASIC, BASIC._replace(forget_bias=0.0), "forget_bias", "adds 0 to the forget gate, the reference 1"),
        (LSTM, BASIC, BASIC._replace(biased="j"), "forget_bias", "is added to the new gate"),
        (LSTM, BASIC, BASIC._replace(order="ifjo"), "gate_order", "as input, forget, new, output"),
        (PROJECTED, BASIC, BASIC._replace(forget_bias=0.0), "forget_bias", "adds 0 to the forget gate"),
        (PROJECTED, BASIC, BASIC._replace(order="ifjo"), "gate_order", "as input, forget, new, output"),
        (GRU, RESET, RESET._replace(reset="after"), "recurrent_rule", "resets after the product"),
        (GRU, RESET, RESET._replace(reset="after", bias_reset=True), "recurrent_rule", "resets after the product"),
        (GRU, RESET, RESET._replace(update="new"), "recurrent_rule", "multiplies the new state"),
        (GRU, RESET, RESET._replace(order="zrh"), "gate_order", "as update, reset, new"),
        (CUDNN, Cell("GRU", "rzh", reset="after"), RESET, "recurrent_rule", "resets before the product"),
    ],
)
def test_another_rule_of_a_cell_is_named(variables, cell, other, name, words):
    named = cause(variables, outputs(variables, cell), outputs(variables, other))
    assert named.name == name
    assert words in named.title


@pytest.mark.parametrize(
    ("way", "other"),
    [
        ({"lengths": LENGTHS, "reverse": "each"}, {"reverse": "all", "frozen": False}),
        ({"lengths": LENGTHS, "reverse": "each"}, {"lengths": LENGTHS, "reverse": "all"}),
    ],
)
def test_lengths_that_are_ignored_are_named(way, other):
    named = cause(LSTM, outputs(LSTM, BASIC, **way), outputs(LSTM, BASIC, **other))
    assert named.name == "sequence_lengths"


@pytest.mark.parametrize("lengths", [None, LENGTHS, (LENGTHS + 1) // 2])
def test_numbers_that_go_in_in_other_places_are_named(lengths):
    """Where the layer gives what the candidate has of them: of another order it does not."""
    moved, own = X[:, [1, 0, 2, 4, 3]], outputs(LSTM, BASIC, lengths=lengths)
    _, weights = next(weights_of(LSTM))
    given = over_steps(step_of(BASIC, weights), moved, (np.zeros((3, 4)),) * 2, Way(lengths)).steps
    layer = Recurrent("cell", LSTM, {"x": X, "y": moved}, {}, {"n": LENGTHS}, {}, [own], [given])
    named = other_recurrence(layer)
    assert (
        named.name == "moved_values" and "cell takes the numbers of x in other places in the port, as y" in named.title
    )
    assert other_recurrence(layer._replace(sequences={"x": X, "y": moved[:, ::-1]})) is None
    assert other_recurrence(layer._replace(sequences={"x": X, "y": 2 * moved})) is None


@pytest.mark.parametrize(("told", "words"), [(LENGTHS - 1, "n + 1"), (2 * LENGTHS - 1, "half of n, rounded up")])
def test_lengths_that_a_graph_makes_of_lengths_are_those_of_its_layer(told, words):
    """Backwards another length shows; only with the reference's own can it be said what the candidate does otherwise."""
    reference, candidate = (outputs(LSTM, BASIC, reverse="each", **each) for each in ({"lengths": LENGTHS}, {}))
    layer = Recurrent("cell", LSTM, {"x": X}, {}, {"n": told}, {}, [reference], [candidate])
    assert other_recurrence(layer).name == "sequence_lengths"
    assert other_recurrence(layer._replace(lengths={})) is None
    assert words in dict(at_recurrent._with_derived({"n": told}))


def test_a_sequence_is_cut_into_the_steps_that_the_candidate_has_of_its_numbers():
    """Two frames of six are joined: neighbours in the reference, halves in the candidate, both by what takes them."""
    frames = RANDOM.normal(size=(2, 6, 3))
    halves = frames.reshape(2, 2, 3, 3).swapaxes(1, 2).reshape(2, 3, 6)
    found = _in_steps_of({"frames": frames}, {"joined": halves, "others": 2 * halves})
    assert [*found] == ["frames, cut into steps of 6"]
    np.testing.assert_array_equal(found["frames, cut into steps of 6"], frames.reshape(2, 3, 6))


def test_the_first_output_of_a_projected_cell_is_named():
    begun = np.zeros((3, 6)), STATES["h"]
    named = cause(PROJECTED, outputs(PROJECTED, BASIC), outputs(PROJECTED, BASIC, begun))
    assert named.name == "initial_state" and "zeros and h" in named.title


def last_state(variables, cell, **way):
    _, weights = next(each for each in weights_of(variables) if each[0] == cell.kind)
    zeros = (np.zeros((3, 4)),) * (2 if cell.kind == "LSTM" else 1)
    return over_steps(step_of(cell, weights), X, zeros, Way(**way)).last


def test_the_state_behind_the_ends_shows_a_rule_where_outputs_are_not_seen():
    lengths = {"lengths": LENGTHS}
    own, other = (last_state(GRU, cell, **lengths)[0] for cell in (RESET, RESET._replace(update="new")))
    named = cause(GRU, own, other)
    assert named.name == "recurrent_rule" and "multiplies the new state" in named.title
    assert cause(GRU, own, 1.01 * other) is None


@pytest.mark.parametrize("place", [0, 1])
def test_whole_sequences_that_are_reversed_show_in_either_state_behind_the_ends(place):
    own = last_state(LSTM, BASIC, lengths=LENGTHS, reverse="each")[place]
    other = last_state(LSTM, BASIC, lengths=LENGTHS, reverse="all")[place]
    named = cause(LSTM, own, other)
    assert named.name == "sequence_lengths" and "reverses whole sequences" in named.title


def test_the_first_step_of_a_reversed_run_is_nothing_that_is_left_behind_the_ends():
    own = last_state(LSTM, BASIC, lengths=LENGTHS, reverse="each")[1]
    (begun,) = outputs(LSTM, BASIC, reverse="all")[None, :, -1]
    assert cause(LSTM, own, begun) is None


def test_a_state_from_behind_the_ends_is_no_rule_of_a_candidate_that_may_take_the_steps_at_the_lengths():
    way = {"lengths": LENGTHS, "reverse": "each"}
    own = last_state(LSTM, BASIC, **way)[1]
    assert cause(LSTM, own, last_state(LSTM, BASIC, **way, frozen=False)[1]) is None


@pytest.mark.parametrize("other", [{"frozen": False}, {"lengths": LENGTHS, "frozen": False}])
def test_a_run_behind_the_end_is_named_only_where_the_candidate_goes_on_with_what_it_gives_there(other):
    sides = outputs(LSTM, BASIC, lengths=LENGTHS), outputs(LSTM, BASIC, **other)
    assert cause(LSTM, *sides) is None  # a right port may take the step at the length of it, or mask it
    assert cause(LSTM, *sides, read=[sides[1][np.arange(3), LENGTHS - 1]]) is None
    for taken in (sides[1][:, -1], sides[1].mean(axis=1), sides[1].max(axis=1)):
        assert cause(LSTM, *sides, read=[taken]).name == "sequence_lengths"


def test_one_half_of_two_directions_shows_a_rule():
    way, forwards = {"lengths": LENGTHS, "reverse": "each"}, RANDOM.normal(size=(3, 5, 4))
    sides = [np.concatenate([forwards, outputs(LSTM, cell, **way)], 2) for cell in (BASIC, BASIC._replace(biased="j"))]
    assert cause(LSTM, *sides).name == "forget_bias"


def test_an_example_may_be_empty():
    """Of documents with fewer sentences than others."""
    lengths = np.array([5, 0, 3])
    sides = [outputs(GRU, cell, lengths=lengths) for cell in (RESET, RESET._replace(update="new"))]
    layer = Recurrent("cell", GRU, {"x": X}, {}, {"n": lengths}, {}, sides[:1], sides[1:])
    assert other_recurrence(layer).name == "recurrent_rule"


def test_zeros_that_a_candidate_reads_are_not_the_outputs_behind_some_end():
    sides = outputs(LSTM, BASIC), outputs(LSTM, BASIC) + 1.0
    layer = Recurrent("cell", LSTM, {"x": X}, {}, {"labels": np.array([1, 0, 2])}, {}, sides[:1], sides[1:])
    assert other_recurrence(layer._replace(read=[np.zeros((3, 4))])) is None


def test_a_sequence_that_is_cut_the_other_way_round_is_named():
    regrouped = X.reshape(5, 3, 3).swapaxes(0, 1)
    _, weights = next(each for each in weights_of(GRU))
    other = over_steps(step_of(RESET, weights), regrouped, (np.zeros((3, 4)),), Way()).steps
    named = cause(GRU, outputs(GRU, RESET), other)
    assert (named.name, "cut into sequences as if" in named.title) == ("moved_values", True)


def test_what_may_be_a_sequence_is_found_with_documents_and_sentences_on_one_axis_or_two():
    words, sentences = RANDOM.normal(size=(3, 4, 5, 2)), RANDOM.normal(size=(12, 6))
    ops = [ForwardOp(name, "Op", [], [], list(v.shape), {}) for name, v in (("words", words), ("sentences", sentences))]
    found = sequences_of(Pass(ops, [words, sentences].__getitem__), {0, 1}, {3})
    np.testing.assert_array_equal(found["words"], words.reshape(12, 5, 2))
    np.testing.assert_array_equal(found["sentences, cut into 3"], sentences.reshape(3, 4, 6))
    assert not sequences_of(Pass(ops, [words, sentences].__getitem__), {1}, {6, 5})


def test_the_layers_whose_scopes_the_place_is_in_come_first():
    scopes = ["word/rnn/fw/cell", "sentence/attention", "sentence/rnn/bw/cell", "sentence/rnn/fw/cell"]
    op = "tower_0/sentence/rnn/fw/fw/while/TensorArrayStack"
    assert sorted(scopes, key=lambda scope: -shared_scopes(scope, op)) == [scopes[3], scopes[2], scopes[1], scopes[0]]


def test_another_first_state_is_named_and_where_it_is_emptied():
    state = (STATES["c"], STATES["h"])
    for other in (None, state[::-1]):
        named = cause(LSTM, outputs(LSTM, BASIC, state)[:, -1], outputs(LSTM, BASIC, other)[:, -1])
        assert named.name == "initial_state"
    of_h = (STATES["h"],)
    for keeps, words in ((None, "never emptied"), (BEGINS, "emptied where b is 0")):
        sides = outputs(GRU, RESET, of_h, keeps=1.0 - BEGINS), outputs(GRU, RESET, of_h, keeps=keeps)
        assert f"the candidate's state is {words}, the reference's emptied where b is 1" in cause(GRU, *sides).title


def test_a_sequence_that_is_read_backwards_is_named_and_told_from_going_backwards():
    right, backwards = outputs(LSTM, BASIC), outputs(LSTM, BASIC, reverse="all")
    named = cause(LSTM, right, backwards[:, ::-1])
    assert (named.name, named.title) == (
        "reversed_input",
        "cell: what goes in is read backwards in the candidate, from its last step to its first",
    )
    assert cause(LSTM, right, backwards).name == "recurrent_rule"


def last_of(x, own, other, parted):
    return other_last(Recurrent("", {}, {"x": x}, {}, {"n": LENGTHS}, {}, [own], [other], parted))


def test_the_step_that_both_sides_take_of_a_sequence_is_named_only_where_they_part():
    own, other = X[np.arange(3), LENGTHS - 1], X[:, -1]
    named = last_of(X, own, other, ([own], [other]))
    assert named.title == "of x the candidate takes the last step, the reference the step n - 1"
    assert last_of(X, own, other, ([own * 2], [other])) is None  # both are somewhere in the passes, as in a right port


def test_what_both_sides_take_of_a_sequence_where_they_part_is_not_named():
    last, mean = X[:, -1], X.mean(axis=1)
    assert last_of(X, last, last, ([last, mean, last + mean], [last, mean, last * mean])) is None
    assert last_of(X, last, last, ([last, mean, last + mean], [last, last * last])) is None


def test_zeros_behind_the_end_are_no_step_that_is_taken():
    x = np.concatenate([X, np.zeros((3, 1, 3))], axis=1)
    own = x[np.arange(3), LENGTHS - 1]
    assert last_of(x, own, np.zeros((3, 3)), ([own], [np.zeros((3, 3))])) is None


def test_a_rule_is_not_named_for_what_both_rules_give():
    short = np.array([4, 2, 3])  # the last outputs are zeros by all rules
    layer = Recurrent(
        "cell", GRU, {"x": X}, {}, {"n": short}, {}, [outputs(GRU, RESET, lengths=short)], [np.zeros((3, 4))]
    )
    assert other_recurrence(layer) is None


@pytest.mark.parametrize("variables", [LSTM, GRU, CUDNN])
def test_what_no_rule_gives_is_not_named(variables):
    kind = BASIC if variables is LSTM else RESET
    right = outputs(variables, kind)
    assert cause(variables, right, right + RANDOM.normal(size=right.shape) * 1e-3) is None
    assert cause(variables, RANDOM.normal(size=right.shape), right) is None


def test_a_dense_layer_among_many_sequences_is_tried_on_a_few_steps_and_not_for_ever(monkeypatch):
    runs = []

    def counted(step, x, state, way):
        runs.append(x.size)
        return over_steps(step, x, state, way)

    monkeypatch.setattr(at_recurrent, "over_steps", counted)
    sequences = {f"x{number}": RANDOM.normal(size=(8, 30, 6)) for number in range(20)}
    wrong = [RANDOM.normal(size=(8, 30, 4)) for _ in range(10)]
    layer = Recurrent("dense", {"kernel": RANDOM.normal(size=(10, 4))}, sequences, {}, {}, {}, wrong, wrong)
    assert other_recurrence(layer) is None
    assert sum(runs) < 6 * 8 * 30 * 6  # of 80 rules, as much as six of them over the whole would take
    monkeypatch.setattr(at_recurrent, "MOST_MULTIPLICATIONS", 1e6)
    runs.clear()
    assert other_recurrence(layer._replace(reference=[RANDOM.normal(size=(8, 4))])) is None
    assert len(runs) == 1


def test_layers_as_near_as_each_other_are_tried_in_the_order_of_the_graph_in_every_run():
    names = [f"{scope}/cell/kernel" for scope in "abcdef"]
    evidence = SimpleNamespace(
        reference=SimpleNamespace(
            variables={name: {"shape": [2, 3]} for name in names},
            step=lambda number: SimpleNamespace(names=list),
        ),
        before=lambda step, quantity, name: np.ones((2, 3)),
    )
    place = SimpleNamespace(
        passes=(Pass([], {}.get), Pass([], {}.get)),
        reached=SimpleNamespace(reference={}, candidate={}, told=(frozenset(), frozenset())),
        parting=SimpleNamespace(reference=None, candidate=None),
        op=SimpleNamespace(name=""),
    )
    found = [layer.name for layer in recurrent_layers(place, evidence, 0, "0")]
    assert found == [f"{scope}{cell}" for scope in "abcdef" for cell in ("/cell", "")]


def test_a_sequence_that_the_graph_reverses_by_itself_shows_lengths_that_are_ignored_by_what_it_was():
    way, other = {"lengths": LENGTHS, "reverse": "each"}, {"reverse": "all", "frozen": False}
    sides = [outputs(LSTM, BASIC, **each) for each in (way, other)]
    reversed_ = X.copy()
    for example, length in enumerate(LENGTHS):
        reversed_[example, :length] = X[example, :length][::-1]
    inner = over_steps(
        step_of(BASIC, next(w for k, w in weights_of(LSTM) if k == "LSTM")),
        reversed_,
        (np.zeros((3, 4)),) * 2,
        Way(LENGTHS),
    ).steps
    layer = Recurrent(
        "cell", LSTM, {"reversed": reversed_, "x": X}, {}, {"n": LENGTHS}, {}, [inner, sides[0]], [sides[1]]
    )
    named = other_recurrence(layer)
    assert named.name == "sequence_lengths" and "run over x from" in named.evidence


def test_columns_of_a_map_are_steps_as_an_op_takes_them_and_lengths_may_be_made_of_data():
    image = RANDOM.normal(size=(3, 2, 5, 4))
    columns = image.transpose(0, 2, 1, 3).reshape(3, 5, 8)
    taken = Operand("0", "", 0, [3, 5, 8])
    ops = [
        ForwardOp("conv", "Conv2D", [], ["w"], [3, 2, 5, 4], {}),
        ForwardOp("reader", "lstm", [0], ["v"], [3, 5, 6], {}, None, (taken,)),
        ForwardOp("cast", "Cast", [], [], [3], {}),
        ForwardOp("shares", "div", [2], [], [3], {}),
    ]
    values = [image, RANDOM.normal(size=(3, 5, 6)), np.array([5.0, 3.0, 4.0]), np.array([0.2, 1.5, 1.0])]
    side = Pass(ops, values.__getitem__, lambda number, at: columns)
    assert np.array_equal(sequences_of(side, {0}, {3})["what reader takes"], columns)
    assert "what reader takes" not in sequences_of(side, set(), {3})
    assert {name: list(each) for name, each in _whole_numbers(side).items()} == {"cast": [5, 3, 4]}


def test_frames_are_as_an_op_takes_them_where_their_steps_are_others():
    frames = RANDOM.normal(size=(3, 6, 4))
    pairs = frames.reshape(3, 3, 8)
    ops = [ForwardOp("norm", "layer_norm", [], ["w"], [3, 6, 4], {})]
    ops.append(ForwardOp("reader", "lstm", [0], ["v"], [3, 3, 6], {}, None, (Operand("0", "", 0, [3, 3, 8]),)))
    side = Pass(ops, [frames, RANDOM.normal(size=(3, 3, 6))].__getitem__, lambda number, at: pairs)
    assert np.array_equal(sequences_of(side, {0}, {3})["what reader takes"], pairs)
