"""Proposals of a mapping: from names, from initial values, from the gradients of the first step."""

import numpy as np
import pytest

from parity.cli import main
from parity.mapping import Values, Variable, parse_transform, propose, proposed_toml
from parity.trace import TraceWriter

RANDOM = np.random.default_rng(0)


def sides(pairs, rename=lambda name: name, gradients=True, values=True):
    """Both sides of variables that are the same: dict of the reference's name to shape, the candidate's names, transform."""
    one, other = [], []
    known = [({}, {}), ({}, {})]
    for name, (shape, names, text) in pairs.items():
        one.append(Variable(name, shape))
        for which, told in enumerate((values, gradients)):
            array = RANDOM.standard_normal(shape)
            parts = parse_transform(text).forward(array, which == 1)
            if which == 0:
                other += [Variable(rename(part), value.shape) for part, value in zip(names, parts, strict=True)]
            if told:
                known[0][which][name] = array
                known[1][which].update((rename(part), v) for part, v in zip(names, parts, strict=True))
    return Values(one, *known[0]), Values(other, *known[1])


def proposed(reference, candidate):
    return {each.reference: (each.candidate, each.transform) for each in propose(reference, candidate)}


DENSE = {
    "a/kernel": ((4, 4), ("first.weight",), "transpose"),
    "b/kernel": ((4, 4), ("second.weight",), "identity"),
    "a/bias": ((4,), ("first.bias",), "identity"),
}


def test_a_square_kernel_is_tried_both_ways_and_the_values_decide():
    reference, candidate = sides(DENSE)
    assert proposed(reference, candidate) == {name: (names, text) for name, (_, names, text) in DENSE.items()}
    assert min(each.confidence for each in propose(reference, candidate)) > 0.8


def test_gradients_alone_tell_swapped_variables_of_one_shape():
    reference, candidate = sides(DENSE, values=False)
    told = propose(reference, candidate)
    assert (told[1].candidate, told[1].transform) == (("second.weight",), "identity")
    assert told[1].confidence > 0.8 and set(told[1].scores) == {"name", "first gradient"}


def test_without_values_nothing_of_one_shape_is_more_than_a_guess():
    reference, candidate = sides(DENSE, values=False, gradients=False)
    text = proposed_toml(propose(reference, candidate))
    assert '# "a/kernel" = {' in text and "a guess: confidence" in text


def test_an_lstm_becomes_two_kernels_and_a_bias_with_the_forget_bias_that_the_values_show():
    lstm = {
        "rnn/kernel": ((7, 16), ("lstm.weight_ih_l0", "lstm.weight_hh_l0"), "lstm_gates"),
        "rnn/bias": ((16,), ("lstm.bias_ih_l0", "lstm.bias_hh_l0"), "lstm_bias(0.5)"),
    }
    assert proposed(*sides(lstm)) == {name: (names, text) for name, (_, names, text) in lstm.items()}


def test_two_biases_that_train_both_are_proposed_as_a_sum():
    both = {"rnn/bias": ((16,), ("lstm.bias_ih_l0", "lstm.bias_hh_l0"), "sum")}
    reference, candidate = sides(both)
    second = RANDOM.standard_normal(16)
    first = reference.initial["rnn/bias"] - second
    halves = {"lstm.bias_ih_l0": first, "lstm.bias_hh_l0": second}
    ((_, transform),) = proposed(reference, candidate._replace(initial=halves)).values()
    assert transform == "sum"


def test_what_fits_nothing_is_not_proposed():
    reference = Values([Variable("w", (3, 5))], {}, {})
    assert propose(reference, Values([Variable("v", (3, 4))], {}, {})) == []


@pytest.fixture
def traces(tmp_path):
    """Two traces whose names say nothing, of variables that are the same."""
    reference, candidate = sides(
        DENSE, rename=lambda name: {"first.weight": "u", "second.weight": "v", "first.bias": "b"}[name]
    )
    for side, values in (("tf", reference), ("torch", candidate)):
        described = {v.name: {"shape": list(v.shape), "dtype": "float64", "kind": "weight"} for v in values.variables}
        writer = TraceWriter(tmp_path / side, {"package": "test"}, {}, described)
        writer.init({f"var/{name}": value for name, value in values.initial.items()})
        writer.step(0, {f"grad/{name}": value for name, value in values.gradient.items()})
        writer.close()
    return tmp_path / "tf", tmp_path / "torch"


def test_the_command_prints_a_table_that_makes_the_traces_join(traces, tmp_path, capsys):
    assert main(["map", *map(str, traces)]) == 0
    captured = capsys.readouterr()
    assert "by numbers" in captured.out
    block = captured.out[captured.out.index("[mapping]") :]
    (tmp_path / "map.toml").write_text(block)
    assert main(["map", *map(str, traces), "--map", str(tmp_path / "map.toml")]) == 0


def test_the_command_says_where_the_values_speak_against_the_mapping(traces, tmp_path, capsys):
    (tmp_path / "map.toml").write_text(
        '[mapping]\n"a/kernel" = { to = "v", transform = "identity" }\n"b/kernel" = { to = "u", transform = "identity" }\n'
    )
    assert main(["map", *map(str, traces), "--map", str(tmp_path / "map.toml")]) == 1
    out = capsys.readouterr().out
    assert "the values speak against it: a/kernel: mapped to v by identity, but u by transpose agrees with it" in out


def test_values_that_are_the_same_in_every_fourth_row_alone_are_not_the_same():
    wanted = RANDOM.standard_normal((128, 128))
    held = wanted.T.copy()
    held[:, np.arange(128) % 4 != 0] = 0.0
    variable, part = Variable("w", (128, 128)), Variable("weight", (128, 128))
    (proposal,) = propose(Values([variable], {"w": wanted}, {}), Values([part], {"weight": held}, {}))
    assert proposal.scores["initial value"] < 0.9
