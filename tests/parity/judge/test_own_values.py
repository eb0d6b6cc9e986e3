"""The port's own buffers and constants are judged before anything is written into them, and what is written is listed."""

import numpy as np
import pytest
from support.tiny_case import write_case

from parity.case import load_case
from parity.diagnose import find_causes
from parity.experiment import run_case
from parity.judge import FirstDifference, Join
from parity.judge.port_values import Written, judge_own_values, written_into, written_notes
from parity.mapping import Mapping, MappingError, Pair, Variable, build_mapping, parse_transform
from parity.trace import parse_key


def mapped(**pairs):
    made = [Pair(name, to, parse_transform(text), "by hand", shape) for name, (to, text, shape) in pairs.items()]
    return Mapping(made)


MEAN = mapped(pixel_mean=(("pixel_mean",), "identity", (3,)))
BIAS = mapped(bias=(("bias_ih", "bias_hh"), "lstm_bias(1.0)", (8,)))
ONE_FORGETS = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def verdicts(mapping, reference, candidate):
    written = written_into(mapping, Join(mapping, {}, []), reference, candidate)
    return [(check.run, check.key, check.verdict) for check in judge_own_values(written)]


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        ([0.5, 0.25, 0.125], "same"),
        ([0.5, 0.25, 0.12500001], "same"),  # of another way to compute it in float32
        ([0.5, 0.25, 0.1251], "different"),
        ([0.125, 0.25, 0.5], "different"),
        ([0.0, 0.0, 0.0], "different"),
    ],
)
def test_a_buffer_is_judged_by_what_the_reference_starts_it_at(own, verdict):
    found = verdicts(MEAN, {"stat/pixel_mean": [0.5, 0.25, 0.125]}, {"stat/pixel_mean": own})
    assert found == [("fresh", "stat/pixel_mean", verdict)]


def test_a_buffer_is_compared_in_the_layout_of_the_reference():
    mapping = mapped(table=(("table",), "transpose", (2, 3)))
    made = np.arange(6.0).reshape(2, 3)
    own = made.T.reshape(-1).tolist()
    assert verdicts(mapping, {"stat/table": made.reshape(-1).tolist()}, {"stat/table": own})[0][2] == "same"
    assert verdicts(mapping, {"stat/table": own}, {"stat/table": own})[0][2] == "different"


@pytest.mark.parametrize(
    ("own", "verdict"), [(ONE_FORGETS, "same"), ([0.0] * 8, "different"), (ONE_FORGETS[::-1], "different")]
)
def test_a_constant_of_a_transform_is_judged_where_the_port_freezes_it(own, verdict):
    assert verdicts(BIAS, {}, {"var/bias_hh": own}) == [("fresh", "var/bias", verdict)]


def test_what_trains_has_no_value_of_its_own():
    assert verdicts(BIAS, {}, {}) == []
    assert verdicts(BIAS, {}, {"var/bias_ih": [1.0] * 8}) == []


def test_what_neither_side_trains_is_listed_and_where_a_port_starts_it_is_not_judged():
    mapping = Mapping(
        [pair._replace(frozen=True) for pair in mapped(kernel=(("features.weight",), "identity", (2,))).pairs]
    )
    written = written_into(
        mapping, Join(mapping, {}, []), {"stat/kernel": [0.0, 0.0]}, {"var/features.weight": [1.0, 2.0]}
    )
    assert [(each.key, each.what, each.own) for each in written] == [
        ("stat/kernel", "weight that is not trained", None)
    ]
    assert not list(judge_own_values(written))


def test_what_is_drawn_at_random_is_listed_and_not_judged():
    written = written_into(MEAN, Join(MEAN, {}, []), {}, {"stat/pixel_mean": [1.0, 2.0, 3.0]})
    assert judge_own_values(written) == []
    [note] = written_notes(written, [])
    assert note.startswith(
        "written into the port besides its weights: pixel_mean (buffer, whose start was not judged: it is drawn"
    )


def test_what_is_written_and_what_is_kept_is_listed():
    written = [
        Written("stat/pixel_mean", ("pixel_mean",), "buffer", np.ones(3), np.ones(3)),
        Written("var/bias", ("bias_hh",), "constant of lstm_bias(1.0)", np.ones(8), np.ones(8)),
    ]
    assert written_notes(written, [Variable("mask", (2, 2), kind="statistic")]) == [
        "written into the port besides its weights: pixel_mean (buffer, its own start judged first); bias_hh (constant of "
        "lstm_bias(1.0), its own start judged first)",
        "the port's own, with no counterpart in the reference, and left as the port makes it: mask",
    ]


def test_another_value_is_named():
    [check] = judge_own_values([Written("stat/pixel_mean", ("pixel_mean",), "buffer", np.ones(3), np.zeros(3))])
    assert check.note == "the port's own pixel_mean is 0, and 1 is written into it"
    key = parse_key(check.key)
    [cause] = find_causes(FirstDifference(check, key.quantity, key.name, key.tower, None), None)
    assert (cause.name, cause.title) == ("own_value", "the port's own pixel_mean is another than the reference's")


def test_where_a_value_differs_is_said():
    own, wanted = np.zeros((2, 4)), np.zeros((2, 4))
    own[1, :2] = [1.0, 2.0]
    [check] = judge_own_values([Written("var/bias", ("bias_hh",), "constant of lstm_bias(0.0)", wanted, own)])
    assert check.note == "the port's own bias_hh is 2 at [1, 1], and 0 is written into it"


def test_a_buffer_that_nothing_is_left_for_is_the_ports_own():
    weight, mean = Variable("w", (2,)), Variable("mean", (3,), kind="statistic")
    mapping = build_mapping([weight], [weight, mean], {})
    assert ([pair.reference for pair in mapping.pairs], mapping.kept) == (["w"], (mean,))
    with pytest.raises(MappingError, match="left over of the candidate"):
        build_mapping([weight, Variable("table", (4,), kind="statistic")], [weight, mean], {})
    for other in (Variable("b", (3,)), Variable("bn.running_mean", (3,), kind="statistic", use="BatchNorm2d")):
        with pytest.raises(MappingError, match="left over of the candidate"):
            build_mapping([weight], [weight, other], {})


TABLE = "import numpy as np\n    table = np.array([0.5, 0.25, 0.125])\n    "
MADE = (
    'tf.get_variable("shift", [3], x.dtype, lambda shape, dtype, **named: tf.constant(table, dtype), trainable=False)'
)
GIVEN = f"# break here -> {TABLE}x = x - {MADE}"
LAYER = "self.dense = nn.Linear(3, 2)"
BUFFER = f"{LAYER} -> {LAYER}\n        self.register_buffer('shift', torch.tensor({{}}))"


def shifted(folder, tower, own):
    """Writes the case with a port that takes a buffer of its own from the inputs."""
    port = write_case(folder, tf=tower, torch=BUFFER.format(own)) / "model_torch.py"
    text = port.read_text().replace("import os,", "import torch, os,")
    port.write_text(text.replace("self.dense(x)", "self.dense(x - self.shift)"))
    return load_case(folder, steps=2)


@pytest.mark.parametrize(("own", "verdict"), [("[0.5, 0.25, 0.125]", "same"), ("[0.5, 0.25, 0.2]", "different")])
def test_a_wrong_buffer_is_different_though_the_right_one_is_written_into_it(tf2_sides, tmp_path, own, verdict):
    result = run_case(shifted(tmp_path / "tiny", GIVEN, own), tf2_sides, levels=("function",))
    assert result.verdict == verdict, (result.first_difference, result.levels["function"].notes)
    assert any("shift (buffer, its own start judged first)" in note for note in result.notes)
    if verdict == "different":
        assert (result.first_difference.check.run, result.first_difference.check.key) == ("fresh", "stat/shift")
        assert [cause.name for cause in result.causes] == ["own_value"]


@pytest.mark.parametrize(("own", "verdict"), [("[0.5, 0.25, 0.125]", "same"), ("[0.5, 0.25, 0.2]", "different")])
def test_a_buffer_for_a_constant_of_the_graph_keeps_the_ports_own_value(tf2_sides, tmp_path, own, verdict):
    constant = f"# break here -> {TABLE}x = x - tf.constant(table, x.dtype)"
    result = run_case(shifted(tmp_path / "tiny", constant, own), tf2_sides, levels=("function",))
    assert result.verdict == verdict, (result.first_difference, result.levels["function"].notes)
    assert any(note.endswith("left as the port makes it: shift") for note in result.notes)
    if verdict == "different":
        first = result.first_difference.decisive or result.first_difference
        assert (first.check.run, first.check.key) == ("lockstep", "loss/0")


FROZEN = (
    f"{LAYER} -> {LAYER}\n        self.more = nn.Parameter(self.dense.bias.detach() * 0 + {{}}, requires_grad=False)"
)
LOSS = 'loss = "model_torch:loss"'
SUM = f'{LOSS} -> {LOSS}\n[mapping]\n"dense/bias" = {{ to = ["dense.bias", "more"], transform = "sum" }}'


@pytest.mark.parametrize(("own", "verdict"), [("0.0", "same"), ("1.0", "different")])
def test_a_frozen_constant_is_judged_before_the_mapping_writes_it(tf2_sides, tmp_path, own, verdict):
    folder = write_case(tmp_path / "tiny", case=SUM, torch=FROZEN.format(own))
    port = folder / "model_torch.py"
    port.write_text(port.read_text().replace("return self.dense(x)", "return self.dense(x) + self.more"))
    result = run_case(load_case(folder, steps=2), tf2_sides, levels=("function",))
    assert result.verdict == verdict, (result.first_difference, result.levels["function"].notes)
    assert any("more (constant of sum, its own start judged first)" in note for note in result.notes)
    if verdict == "different":
        assert (result.first_difference.check.run, result.first_difference.check.key) == ("fresh", "var/dense/bias")


@pytest.mark.parametrize(
    ("expected", "own", "words"),
    [
        (np.full((2, 2), 0.5), np.full((2, 2), 7.0), ("7", "0.5")),
        (np.array(7), np.array(8), ("8", "7")),
        (np.array([0.5, 0.25]), np.array([0.5, 0.75]), ("[0.5, 0.75]", "[0.5, 0.25]")),
        (np.array([1, 2, 1]), np.array([1, 1, 1]), ("1", "[1, 2, 1]")),
        (np.arange(4.0).reshape(2, 2), np.array([[0.0, 1.5], [9.0, 3.0]]), ("9 at [1, 0]", "2 at [1, 0]")),
    ],
)
def test_a_value_is_told_in_up_to_three_numbers_or_at_the_element_that_differs_most(expected, own, words):
    [check] = judge_own_values([Written("stat/m", ("m",), "buffer", expected, own)])
    assert check.note == f"the port's own m is {words[0]}, and {words[1]} is written into it"


def test_of_many_buffers_of_one_kind_four_are_named():
    names = [f"bn{n}.mean" for n in range(6)]
    written = [Written(f"stat/{name}", (name,), "buffer", np.ones(1), None) for name in names]
    how = "(buffer, its own start not known)"
    begin = "written into the port besides its weights: bn0.mean, bn1.mean, bn2.mean, bn3.mean"
    assert written_notes(written, []) == [f"{begin} and 2 more {how}"]
    assert written_notes(written[:4], []) == [f"{begin} {how}"]
    assert written_notes([], []) == []


def test_a_value_of_a_ports_own_in_float64_is_the_float32_constant_of_the_graph_and_belongs_to_the_start():
    [check] = judge_own_values([Written("stat/m", ("m",), "buffer", np.array([0.1], np.float32), np.array([0.1]))])
    assert (check.verdict, check.difference, check.step) == ("same", 0.0, 0)


def test_what_nothing_of_the_candidate_is_joined_to_is_not_written():
    mapping = mapped(alone=((), "identity", (2,)), pixel_mean=(("pixel_mean",), "identity", (3,)))
    found = written_into(mapping, Join(mapping, {}, []), {"stat/alone": [1.0, 2.0], "stat/pixel_mean": [1.0] * 3}, {})
    assert [(each.key, each.own) for each in found] == [("stat/pixel_mean", None)]


def test_a_sum_has_a_constant_where_its_second_part_is_frozen_and_a_half_known_buffer_is_not_judged():
    mapping = mapped(mean=(("one", "two"), "sum", (2,)))
    join = Join(mapping, {}, [])
    [constant] = written_into(mapping, join, {}, {"var/two": [0.0, 0.0], "var/one": [1.0, 1.0]})
    assert (constant.key, constant.names, constant.what) == ("var/mean", ("two",), "constant of sum")
    [half] = written_into(mapping, join, {"stat/mean": [1.0, 2.0]}, {"stat/one": [1.0, 2.0]})
    assert half.own is None
    [whole] = written_into(mapping, join, {"stat/mean": [1.0, 2.0]}, {"stat/one": [1.0, 2.0], "stat/two": [0.5, 0.0]})
    assert whole.own.tolist() == [1.5, 2.0]
