import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parity.mapping import (
    MappingEntry,
    MappingError,
    Variable,
    build_mapping,
    draft_mapping,
    only_slots_left,
    slot_partner,
    variables_of,
)
from parity.mapping.names import meanings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def weight(name, shape, use=None):
    return Variable(name, shape, use=use)


def statistic(name, shape, use=None):
    return Variable(name, shape, kind="statistic", use=use)


REFERENCE = [
    weight("net/conv_1/kernel", (3, 3, 2, 2), "Conv2D+L2Loss"),
    weight("net/conv_1/biases", (2,), "BiasAdd"),
    weight("net/batch_norm/gamma", (2,), "FusedBatchNormV3"),
    weight("net/batch_norm/beta", (2,), "FusedBatchNormV3"),
    statistic("net/batch_norm/moving_mean", (2,)),
    statistic("net/batch_norm/moving_variance", (2,)),
    weight("net/fc/weights", (5, 5), "MatMul"),
    weight("net/fc/biases", (5,), "AddV2"),
]
CANDIDATE = [
    weight("module.conv1.weight", (2, 2, 3, 3), "Conv2d"),
    weight("module.conv1.bias", (2,), "Conv2d"),
    weight("module.batchnorm.weight", (2,), "BatchNorm2d"),
    weight("module.batchnorm.bias", (2,), "BatchNorm2d"),
    statistic("module.batchnorm.running_mean", (2,), "BatchNorm2d"),
    statistic("module.batchnorm.running_var", (2,), "BatchNorm2d"),
    statistic("module.batchnorm.num_batches_tracked", (), "BatchNorm2d"),
    weight("module.fc.weight", (5, 5), "Linear"),
    weight("module.fc.bias", (5,), "Linear"),
]


def pairs(mapping):
    return [(pair.reference, *pair.candidate, pair.transform.text, pair.why) for pair in mapping.pairs]


def test_two_naming_habits_are_joined_by_name_and_shape():
    why = "by name and shape"
    assert pairs(build_mapping(REFERENCE, CANDIDATE, {})) == [
        ("net/conv_1/kernel", "module.conv1.weight", "hwio_to_oihw", why),
        ("net/conv_1/biases", "module.conv1.bias", "identity", why),
        ("net/batch_norm/gamma", "module.batchnorm.weight", "identity", why),
        ("net/batch_norm/beta", "module.batchnorm.bias", "identity", why),
        ("net/batch_norm/moving_mean", "module.batchnorm.running_mean", "identity", why),
        ("net/batch_norm/moving_variance", "module.batchnorm.running_var", "identity", why),
        ("net/fc/weights", "module.fc.weight", "transpose", why),
        ("net/fc/biases", "module.fc.bias", "identity", why),
    ]


@given(st.permutations(REFERENCE), st.permutations(CANDIDATE))
@settings(max_examples=50)
def test_the_order_of_the_variables_decides_nothing_but_the_order_of_the_pairs(reference, candidate):
    mapping = build_mapping(reference, candidate, {})
    assert [pair.reference for pair in mapping.pairs] == [variable.name for variable in reference]
    assert sorted(pairs(mapping)) == sorted(pairs(build_mapping(REFERENCE, CANDIDATE, {})))


@pytest.mark.parametrize("dropped", range(len(REFERENCE)))
def test_a_variable_without_a_counterpart_is_an_error_on_either_side(dropped):
    without = [variable for at, variable in enumerate(REFERENCE) if at != dropped]
    with pytest.raises(MappingError, match="left over of the candidate"):
        build_mapping(without, CANDIDATE, {})
    real = [variable for variable in CANDIDATE if not variable.name.endswith("num_batches_tracked")]
    without = [variable for at, variable in enumerate(real) if at != dropped]
    with pytest.raises(MappingError, match="left over of the reference"):
        build_mapping(REFERENCE, without, {})


@pytest.mark.parametrize(
    ("tf_use", "shape", "torch_use", "torch_shape", "text"),
    [
        ("MatMul", (3, 3), "Linear", (3, 3), "transpose"),
        ("MatMul+L2Loss", (3, 3), "Linear", (3, 3), "transpose"),
        ("Conv2D", (2, 2, 2, 2), "Conv2d", (2, 2, 2, 2), "hwio_to_oihw"),
        ("Conv2D", (2, 3, 3), "Conv1d", (3, 3, 2), "wio_to_oiw"),
        ("Conv3D", (2, 2, 2, 2, 2), "Conv3d", (2, 2, 2, 2, 2), "dhwio_to_oidhw"),
        ("DepthwiseConv2dNative", (3, 3, 1, 2), "Conv2d", (2, 1, 3, 3), "hwcm_to_depthwise"),
        ("Conv2DBackpropInput", (2, 2, 2, 2), "ConvTranspose2d", (2, 2, 2, 2), "hwoi_to_iohw"),
        ("GatherV2", (3, 3), "Embedding", (3, 3), "identity"),
        ("GatherV2+MatMul", (5, 3), "Embedding", (5, 3), "identity"),
        ("MatMul", (3, 4), "", (4, 3), "transpose"),
        ("MatMul", (3, 4), None, (3, 4), "identity"),
        (None, (), "", (), "identity"),
    ],
)
def test_uses_decide_the_layout_even_where_shapes_cannot(tf_use, shape, torch_use, torch_shape, text):
    mapping = build_mapping([weight("a/kernel", shape, tf_use)], [weight("a.weight", torch_shape, torch_use)], {})
    assert mapping.pairs[0].transform.text == text


@pytest.mark.parametrize(("tf_use", "torch_use"), [("MatMul", ""), ("GatherV2+MatMul", "Linear"), (None, None)])
def test_a_square_array_whose_layout_no_use_fixes_is_refused_with_both_lines(tf_use, torch_use):
    with pytest.raises(MappingError) as caught:
        build_mapping([weight("a/kernel", (3, 3), tf_use)], [weight("a.weight", (3, 3), torch_use)], {})
    assert '"a/kernel" = { to = "a.weight", transform = "identity" }' in str(caught.value)
    assert '"a/kernel" = { to = "a.weight", transform = "transpose" }' in str(caught.value)
    assert "or one of" not in str(caught.value), "both are there"


def test_what_names_do_not_say_the_only_fitting_shape_does():
    mapping = build_mapping(
        [weight("Variable", (3, 4), "MatMul"), weight("Variable_1", (4,))],
        [weight("head.weight", (4, 3), "Linear"), weight("head.bias", (4,), "Linear")],
        {},
    )
    assert [pair.why for pair in mapping.pairs] == ["only shape that fits"] * 2


def test_a_scope_around_variables_with_layers_of_their_own_and_without_says_nothing():
    reference = [weight("tower/hidden1_weights", (3, 4), "MatMul"), weight("tower/experts/bias", (4,))]
    reference += [weight("tower/hidden1_bn/beta", (4,))]
    candidate = [weight("hidden1.weight", (4, 3), "Linear"), weight("bn.bias", (4,)), weight("experts.bias", (4,))]
    mapping = build_mapping(reference, candidate, {})
    assert [(pair.reference, *pair.candidate) for pair in mapping.pairs] == [
        ("tower/hidden1_weights", "hidden1.weight"),
        ("tower/experts/bias", "experts.bias"),
        ("tower/hidden1_bn/beta", "bn.bias"),
    ]


def test_the_name_of_a_single_layer_is_no_scope():
    reference = [weight("head/kernel", (4,)), weight("head/bias", (4,))]
    candidate = [weight(name, (4,)) for name in ("head.weight", "head.bias")]
    assert [pair.why for pair in build_mapping(reference, candidate, {}).pairs] == ["by name and shape"] * 2


def test_one_variable_that_is_left_over_is_told_in_the_singular():
    with pytest.raises(MappingError, match=r"got 1 that does not\. Write the lines"):
        build_mapping([weight("unused", (4,))], [], {})


def test_square_kernels_of_two_traces_of_one_framework_are_not_transposed():
    for use in ("MatMul", "Linear"):
        (pair,) = build_mapping([weight("a/kernel", (4, 4), use)], [weight("a/kernel", (4, 4), use)], {}).pairs
        assert pair.transform.text == "identity"


def test_entries_written_the_wrong_way_round_are_told_so():
    reference, candidate = [weight("a/kernel", (4,)), weight("b", (4,))], [weight("x", (4,)), weight("y", (4,))]
    with pytest.raises(MappingError) as error:
        build_mapping(reference, candidate, {"x": MappingEntry(to=("a/kernel",))})
    assert (
        "wrong in [mapping]:\n  x: expected the reference's name before the candidate's, got a/kernel behind it"
    ) in str(error.value)
    assert "got none of this name" not in str(error.value), "one line says all of it"


def test_two_that_only_shape_could_join_are_refused_where_shapes_agree():
    reference = [weight("Variable", (4,)), weight("Variable_1", (4,))]
    with pytest.raises(MappingError, match=r"got 2 pairs that are no more than guessed"):
        build_mapping(reference, [weight("a.bias", (4,)), weight("b.bias", (4,))], {})


@pytest.mark.parametrize("names", [("Variable", "Variable_1"), ("a/kernel", "a/weights")])
def test_a_candidate_that_two_of_the_reference_could_be_is_left_to_neither(names):
    with pytest.raises(MappingError, match="got 3 that do not"):
        build_mapping([weight(name, (4,)) for name in names], [weight("a.weight", (4,))], {})


def test_a_shape_never_joins_what_the_names_call_different_things():
    with pytest.raises(MappingError, match="left over of the reference:\n  one/beta"):
        build_mapping([weight("one/beta", (4,))], [weight("two.weight", (4,), "BatchNorm2d")], {})


def test_kinds_are_never_mixed():
    with pytest.raises(MappingError, match="nothing left over fits"):
        build_mapping([statistic("a", (4,))], [weight("a", (4,))], {})


def test_a_flattened_kernel_is_joined_as_the_case_says():
    entry = MappingEntry.model_validate({"to": "fc.weight", "transform": "flatten_hwc(2, 2, 1)"})
    reference = [weight("fc/kernel", (4, 4), "MatMul")]
    mapping = build_mapping(reference, [weight("fc.weight", (4, 4), "Linear")], {"fc/kernel": entry})
    assert pairs(mapping) == [("fc/kernel", "fc.weight", "flatten_hwc(2, 2, 1)", "by hand")]


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("fc/weihts", "fc.weight", "fc/weihts: expected a variable of the reference.*did you mean 'fc/weights'"),
        ("fc/weights", "fc.wieght", "fc.wieght: expected a variable of the candidate.*did you mean 'fc.weight'"),
        (
            "fc/weights",
            {"to": "fc.weight", "transform": "identity"},
            r"identity makes \[4, 3\] of it, got fc.weight \[3",
        ),
        ("fc/weights", "fc.mean", r"expected another weight, got fc.mean \[4\] \(statistic\)"),
        ("fc/weights", ["fc.weight", "fc.bias"], "expected a transform with several names"),
        ("fc/weights", {"to": ["fc.weight", "fc.bias"], "transform": "transpose"}, "transpose makes 1 arrays, got 2"),
        ("fc/weights", {"to": "fc.weight", "transform": "hwio_to_oihw"}, "expected 4 axes"),
        ("fc/bias", "fc.weight", "expected a transform, for no layout is known that makes fc.weight"),
    ],
)
def test_a_wrong_entry_is_named_with_what_is_wrong(name, entry, message):
    reference = [weight("fc/weights", (4, 3), "MatMul"), weight("fc/bias", (3,)), statistic("fc/mean", (4,))]
    candidate = [weight("fc.weight", (3, 4), "Linear"), weight("fc.bias", (3,)), statistic("fc.mean", (4,))]
    made = MappingEntry.model_validate(entry if isinstance(entry, dict | str) else {"to": entry})
    with pytest.raises(MappingError, match=message):
        build_mapping(reference, candidate, {name: made})


def test_a_name_used_twice_is_refused():
    reference = [weight("a", (2,)), weight("b", (2,))]
    entries = {name: MappingEntry.model_validate("x") for name in ("a", "b")}
    with pytest.raises(MappingError, match="x: expected to be used once, got it for a and b"):
        build_mapping(reference, [weight("x", (2,)), weight("y", (2,))], entries)


LSTM_REFERENCE = [weight("rnn/lstm_cell/kernel", (3 + 2, 8), "MatMul"), weight("rnn/lstm_cell/bias", (8,), "BiasAdd")]
LSTM_CANDIDATE = [
    weight("rnn.weight_ih_l0", (8, 3), "LSTM"),
    weight("rnn.weight_hh_l0", (8, 2), "LSTM"),
    weight("rnn.bias_ih_l0", (8,), "LSTM"),
    weight("rnn.bias_hh_l0", (8,), "LSTM"),
]


def test_the_lines_that_an_error_offers_can_be_pasted_and_make_the_mapping_total():
    with pytest.raises(MappingError) as caught:
        build_mapping(LSTM_REFERENCE, LSTM_CANDIDATE, {})
    lines = [line.strip() for line in str(caught.value).splitlines() if "transform = " in line]
    assert tomllib.loads("\n".join(lines)).keys() == {"rnn/lstm_cell/bias"}
    table = tomllib.loads(caught.value.table)["mapping"]
    mapping = build_mapping(
        LSTM_REFERENCE, LSTM_CANDIDATE, {name: MappingEntry.model_validate(entry) for name, entry in table.items()}
    )
    assert [pair.transform.text for pair in mapping.pairs] == ["lstm_gates", "lstm_bias(1.0)"]


def test_a_gate_order_is_never_guessed_from_a_shape():
    with pytest.raises(MappingError, match="no more than guessed"):
        build_mapping([weight("rnn/kernel", (3, 8), "MatMul")], [weight("rnn.weight_ih_l0", (8, 3), "LSTM")], {})


@pytest.mark.parametrize(
    ("reference", "candidate"), [(REFERENCE, CANDIDATE), ([weight('a"\\/é', (2,))], [weight("a", (2,))])]
)
def test_the_printed_table_reads_back_as_the_same_mapping(reference, candidate):
    mapping = build_mapping(reference, candidate, {})
    table = tomllib.loads(mapping.toml())["mapping"]
    again = build_mapping(reference, candidate, {name: MappingEntry.model_validate(e) for name, e in table.items()})
    assert [pair[:3] for pair in pairs(again)] == [pair[:3] for pair in pairs(mapping)]
    assert {pair.why for pair in again.pairs} == {"by hand"}


def test_arrays_travel_to_the_candidate_and_back():
    mapping = build_mapping(
        [*REFERENCE, weight("net/dw/kernel", (3, 3, 2, 2), "DepthwiseConv2dNative")],
        [*CANDIDATE, weight("module.dw.weight", (4, 1, 3, 3), "Conv2d")],
        {},
    )
    random = np.random.default_rng(0)
    for pair in mapping.pairs:
        array = random.standard_normal(pair.shape)
        sent = mapping.to_candidate(pair.reference, array)
        assert tuple(sent) == pair.candidate
        np.testing.assert_array_equal(mapping.to_reference(pair.reference, sent), array)
        assert mapping.pair_of(pair.candidate[0]) is pair is mapping.pair(pair.reference)


def test_missing_extra_and_unknown_arrays_are_refused():
    mapping = build_mapping(REFERENCE, CANDIDATE, {})
    array = np.zeros((5, 5))
    for arrays in ({}, {"module.fc.bias": array}, {"module.fc.weight": array, "other": array}):
        with pytest.raises(MappingError, match=r"expected arrays of module\.fc\.weight for net/fc/weights"):
            mapping.to_reference("net/fc/weights", arrays)
    with pytest.raises(MappingError, match="expected a variable of the reference, got 'fc'"):
        mapping.to_candidate("fc", array)


def test_a_frozen_half_of_a_bias_may_lack_its_gradient_but_not_its_value():
    entries = {
        "rnn/lstm_cell/kernel": {"to": ["rnn.weight_ih_l0", "rnn.weight_hh_l0"], "transform": "lstm_gates"},
        "rnn/lstm_cell/bias": {"to": ["rnn.bias_ih_l0", "rnn.bias_hh_l0"], "transform": "lstm_bias"},
    }
    made = {name: MappingEntry.model_validate(entry) for name, entry in entries.items()}
    mapping = build_mapping(LSTM_REFERENCE, LSTM_CANDIDATE, made)
    gradient = np.arange(8.0)
    sent = mapping.to_candidate("rnn/lstm_cell/bias", gradient, linear=True)
    del sent["rnn.bias_hh_l0"]
    np.testing.assert_array_equal(mapping.to_reference("rnn/lstm_cell/bias", sent, linear=True), gradient)
    with pytest.raises(MappingError, match="Pass exactly these"):
        mapping.to_reference("rnn/lstm_cell/bias", sent)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("conv_1/kernel:0", "conv1.weight"),
        ("batch_norm/moving_variance", "BatchNorm.running_var"),
        ("logits_fn/biases", "logits.bias"),
        ("layer1/conv/kernel", "layer1.conv.weight"),
        ("fc/w", "module.fc.weight"),
        ("embedding/embeddings", "embedding.weight"),
        ("W1", "w_1"),
    ],
)
def test_names_that_say_the_same_are_read_the_same(one, other):
    assert meanings([one]) == meanings([other])


@pytest.mark.parametrize(
    ("one", "other"), [("conv1/0/kernel", "conv10.weight"), ("conv1/kernel", "conv1.bias"), ("a1/kernel", "a2.weight")]
)
def test_names_that_say_different_things_are_read_differently(one, other):
    assert meanings([one]) != meanings([other])


def test_scopes_that_all_share_are_left_out_and_layers_never_are():
    assert meanings(["net/a/kernel", "net/b/kernel"]) == meanings(["a.weight", "b.weight"])
    assert meanings(["conv1/kernel", "conv2/kernel"]) != meanings(["fc1.weight", "fc2.weight"])


@pytest.mark.parametrize(
    ("slot", "names", "partner"),
    [
        ("Momentum", ["momentum"], "momentum"),
        ("momentum", ["momentum_buffer"], "momentum_buffer"),
        ("m", ["exp_avg", "exp_avg_sq"], "exp_avg"),
        ("v", ["exp_avg", "exp_avg_sq"], "exp_avg_sq"),
        ("v", ["m", "v"], "v"),
        ("rms", ["square_avg"], "square_avg"),
        ("m", ["momentum_buffer"], "momentum_buffer"),  # of an update written by hand
        ("other", ["exp_avg"], None),
    ],
)
def test_a_slot_finds_its_partner_under_either_habit(slot, names, partner):
    assert slot_partner(slot, names) == partner


def test_variables_are_made_of_a_traces_description():
    described = {"a": {"shape": [2, 3], "dtype": "float64", "kind": "weight", "placement": "", "use": ""}}
    assert variables_of(described) == [Variable("a", (2, 3), "float64", "weight", None)]


@pytest.mark.parametrize(
    ("reference", "candidate", "joined"),
    [
        (["momentum"], ["velocity"], {"momentum": "velocity"}),
        (["m", "v"], ["exp_avg", "second"], {"v": "second"}),
        (["m", "v"], ["first", "second"], {}),  # which is which nobody knows
        (["momentum"], ["velocity", "other"], {}),
        (["momentum"], ["square_avg"], {}),  # of another optimizer
        (["momentum"], ["momentum_buffer"], {}),
        ([], ["velocity"], {}),
    ],
)
def test_the_only_slots_that_are_left_belong_together(reference, candidate, joined):
    assert only_slots_left(reference, candidate) == joined


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (5, "expected a name, or a list of names"),
        (["a", 5], "expected a name, or a list of names"),
        (["a", ""], "expected a name, or a list of names"),
        ({"a": 1}, "expected a name, or a list of names"),
        (["a", "a"], "expected every name once"),
    ],
)
def test_what_an_entry_names_is_one_name_or_several_others(to, said):
    with pytest.raises(ValueError, match=said):
        MappingEntry.model_validate({"to": to})


def test_of_many_answers_two_are_shown_and_of_many_questions_six():
    reference = [weight(f"Variable_{at}", (4, 4)) for at in range(7)]
    candidate = [weight(f"net.{at}.weight", (4, 4)) for at in range(7)]
    with pytest.raises(MappingError) as caught:
        build_mapping(reference, candidate, {})
    lines = str(caught.value).splitlines()
    assert sum(line.startswith('    "Variable_') for line in lines) == 6
    assert sum(line.startswith('    # or "Variable_') for line in lines) == 6
    assert "    # or one of 12 more for Variable_0 [4, 4] (weight)" in lines
    assert lines[-1] == "    # and 1 variable more: `parity map` shows them all"


def test_a_likeness_of_names_is_told_from_an_order_where_it_is_clear():
    reference = [
        weight("tower/alpha_proj/kernel", (4, 4), "MatMul"),
        weight("tower/omega_proj/kernel", (4, 4), "MatMul"),
    ]
    candidate = [
        weight("net.omega_projection.weight", (4, 4), "Linear"),
        weight("net.alpha_projection.weight", (4, 4), "Linear"),
    ]
    draft = draft_mapping(reference, candidate, {})
    assert {guess.variable.name.split("/")[1]: (guess.unit.names[0], guess.why) for guess in draft.guesses} == {
        "alpha_proj": ("net.alpha_projection.weight", "by similar name and shape"),
        "omega_proj": ("net.omega_projection.weight", "by similar name and shape"),
    }


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        (("rows(0, 2)", "rows(1, 2)"), ""),
        (("rows(0, 2)", "rows(0, 2)"), "both.weight: expected to be used once, got it for a and b"),
    ],
)
def test_blocks_of_one_array_are_each_used_once(blocks, said):
    reference = [weight(name, (2,)) for name in "ab"]
    entries = {
        name: MappingEntry.model_validate({"to": "both.weight", "transform": text})
        for name, text in zip("ab", blocks, strict=True)
    }
    candidate = [weight("both.weight", (4,))]
    if not said:
        assert build_mapping(reference, candidate, entries).pairs[1].transform.rows == (1, 2)
        return
    with pytest.raises(MappingError) as caught:
        build_mapping(reference, candidate, entries)
    assert said in str(caught.value)


def test_a_value_is_carried_with_the_constant_of_its_transform_and_a_gradient_without():
    entry = MappingEntry.model_validate({"to": ["b_ih", "b_hh"], "transform": "lstm_bias(1.0)"})
    mapping = build_mapping([weight("b", (4,))], [weight("b_ih", (4,)), weight("b_hh", (4,))], {"b": entry})
    value = np.arange(4.0)
    assert mapping.to_candidate("b", value)["b_hh"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert mapping.to_candidate("b", value, linear=True)["b_hh"].tolist() == [0.0, 2.0, 1.0, 3.0]
    back = mapping.to_reference("b", mapping.to_candidate("b", value))
    assert back.tolist() == value.tolist()
