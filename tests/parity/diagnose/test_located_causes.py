"""From two forward passes to the layer, its cause and the report: on made arrays, without a framework."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.made_steps import trace

from parity.diagnose import Evidence
from parity.diagnose.located.search import behind_layers, fitting, with_causes_at
from parity.experiment.layers import KeptPasses, locate_first, with_location
from parity.judge import Check, FirstDifference, Join
from parity.judge.result import Cause, Explained, Level
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import ForwardOp, write_forward

RANDOM = np.random.default_rng(0)
WEIGHTS = {
    "conv/kernel": RANDOM.normal(size=(3, 3, 2, 4)),
    "dense/kernel": RANDOM.normal(size=(36, 5)),
    "dense/bias": RANDOM.normal(size=5),
}
IMAGES, LABELS = RANDOM.normal(size=(6, 6, 6, 2)), RANDOM.integers(0, 5, size=6)


def convolved(images, top):
    padded = np.pad(images, [(0, 0), (top, 3 - top), (top, 3 - top), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2][:, :3, :3]
    return np.tensordot(windows, WEIGHTS["conv/kernel"], axes=([3, 4, 5], [2, 0, 1]))


def cross_entropy(logits, smoothing=0.0):
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -((1 - smoothing) * logp[np.arange(6), LABELS] + smoothing * logp.mean(1)).mean()


def net(top=0, activation=lambda x: np.maximum(x, 0), order=(0, 1, 2, 3), smoothing=0.0):
    conv = convolved(IMAGES, top)
    hidden = activation(conv)
    product = hidden.transpose(order).reshape(6, 36) @ WEIGHTS["dense/kernel"]
    logits = product + WEIGHTS["dense/bias"]
    return conv, hidden, product, logits, cross_entropy(logits, smoothing)


def written(folder, values, names, kinds):
    weights = [["conv/kernel"], [], ["dense/kernel"], ["dense/bias"], []]
    ops = [
        ForwardOp(name, kind, [number - 1] if number else [], read, list(np.shape(value)), {"strides": [1, 2, 2, 1]})
        for number, (name, kind, read, value) in enumerate(zip(names, kinds, weights, values, strict=True))
    ]
    write_forward(folder / "forward" / "0", 0, "0", zip(ops, map(np.asarray, values), strict=True))


@pytest.fixture
def located(tmp_path):
    """Locates the difference between the net and another one; returns the level."""

    def locate(hidden_by=0.0, **other):
        one, two = ([*values[:-1], values[-1] + hidden_by] for values in (net(), net(**other)))
        kinds = dict.fromkeys(WEIGHTS, "weight")
        feeds = {"feed/0/images": IMAGES, "feed/0/labels": LABELS}
        state = {f"var/{name}": value for name, value in WEIGHTS.items()}
        sides = {}
        for side, values in (("reference", one), ("candidate", two)):
            sides[side] = trace(tmp_path / side, [{**feeds, "loss/0": np.array(values[-1])}], kinds, {})
            for name, value in WEIGHTS.items():
                sides[side].variables[name]["shape"] = list(value.shape)
        graph = (
            "tower_0/conv/Conv2D",
            "tower_0/conv/Relu",
            "tower_0/dense/MatMul",
            "tower_0/dense/BiasAdd",
            "tower_0/Xent",
        )
        written(tmp_path / "reference", one, graph, ("Conv2D", "Relu", "MatMul", "BiasAdd", "Xent"))
        first_last = (np.moveaxis(two[0], -1, 1), np.moveaxis(two[1], -1, 1), *two[2:])
        modules = ("conv", "", "dense", "dense", "")
        written(
            tmp_path / "candidate",
            first_last,
            modules,
            ("conv2d", "relu", "linear without bias", "linear", "cross_entropy"),
        )
        pairs = [Pair(name, (name,), parse_transform("identity"), "", value.shape) for name, value in WEIGHTS.items()]
        join = Join(Mapping(pairs), {}, [])
        states = trace(tmp_path / "states", [state], kinds, {})
        evidence = Evidence(join, sides["reference"], sides["candidate"], states, 1)
        check = Check("lockstep", 0, "loss/0", "different", abs(two[-1] - one[-1]), 1e-15, 1.0, abs(one[-1]))
        first = FirstDifference(check, "loss", "", "0", None)
        if hidden_by:
            apart, size = np.linalg.norm(two[3] - one[3]), np.linalg.norm(one[3])
            check = check._replace(key="act/0/logits", difference=apart, size=size)
            first = FirstDifference(check, "act", "logits", "0", None)
        level = Level("function", "different", "", [check], first)
        place = locate_first(first, KeptPasses(*sides.values()), join, sides["reference"])
        return with_location(replace(level, causes=with_causes_at(place, evidence, [])), place)

    return locate


@pytest.mark.parametrize(
    ("other", "key", "cause", "words"),
    [
        ({"top": 1}, "act/0/conv", "padding", "pads 1 above and 1 to the left of the image in the candidate, 0 above"),
        ({"activation": np.tanh}, "act/0/conv", "activation_function", "goes through tanh in the candidate"),
        ({"order": (0, 3, 1, 2)}, "act/0/dense", "flatten_order", "flattened as channels, rows, columns in place of"),
        ({"smoothing": 0.1}, "loss/0", "cross_entropy", "labels smoothed by 0.1 in the candidate"),
    ],
)
def test_the_layer_and_what_it_is_computed_by_are_named(located, other, key, cause, words):
    level = located(**other)
    first = level.first_difference
    assert (first.check.key, level.causes[0].name) == (key, cause)
    assert words in level.causes[0].title
    assert first.where.startswith("in the layer" if key != "loss/0" else "behind all layers, in the loss")
    assert first.check in level.checks


def test_where_no_rule_fits_what_is_known_is_said(located):
    level = located(activation=lambda x: np.where(np.arange(3)[:, None] < 2, np.maximum(x, 0), np.sin(3 * x)))
    assert (level.first_difference.check.key, level.causes) == ("act/0/conv", [])
    assert "of tower_0/conv/Relu 72 of 216 values differ, only in column 2 of 3" in level.first_difference.where
    assert "its inputs and weights are the same" in level.first_difference.where


def test_a_difference_that_the_loss_hides_is_found_where_it_begins(located):
    level = located(hidden_by=1e4, activation=lambda x: np.maximum(x, 0) + 1e-7 * np.sin(3 * x))
    assert level.first_difference.where.startswith("in the layer conv: tower_0/conv/Relu (Relu)")


def test_the_layer_is_computed_again_where_the_case_declares_its_output_too(located):
    level = located(hidden_by=1e4, order=(0, 3, 1, 2))
    assert (level.first_difference.check.key, level.causes[0].name) == ("act/0/logits", "flatten_order")


@pytest.mark.parametrize(
    ("changed", "known", "proven", "rest"),
    [
        (["extra_scale"], ["gamma_missing"], ["gamma_missing", "extra_scale"], []),
        (["activation_function"], ["rectifier", "border"], ["rectifier", "activation_function"], ["border"]),
        (["other_operation"], ["response_normalisation"], ["response_normalisation", "other_operation"], []),
        (["epsilon"], ["rectifier"], ["epsilon"], ["rectifier"]),  # as exact, and proven
        (["extra_scale"], ["weight_decay", "normalisation"], ["extra_scale"], ["weight_decay", "normalisation"]),
        (["scale"], ["scale", "input_shift", "input_shift"], ["input_shift", "scale"], []),
        ([], ["gamma_missing", "border"], [], ["gamma_missing", "border"]),
    ],
)
def test_a_change_of_one_op_comes_behind_what_says_it_of_its_layer(changed, known, proven, rest):
    made = ([Cause(name, "", "", "") for name in names] for names in (changed, known))
    assert tuple([cause.name for cause in group] for group in behind_layers(*made)) == (proven, rest)


def test_an_input_in_another_order_fits_behind_other_layers_where_an_experiment_undoes_it():
    place = SimpleNamespace(layer="lstm", fed_by=True, reference=None, candidate=None)
    causes = [Cause(name, "", "", "") for name in ("rolled_input", "input_scale", "gate_order")]
    located = SimpleNamespace(place=place, first=None)
    names = [[each.name for each in fitting(causes, located, way)] for way in (False, True)]
    assert names == [["gate_order"], ["rolled_input", "gate_order"]]


@pytest.mark.parametrize(
    ("explained", "layer", "declared", "named"),
    [
        ("act/0/dense", 0.049, None, ["reduced_precision"]),
        ("act/0/dense", 0.051, None, []),
        (
            "act/0/logits",
            0.051,
            0.003,
            ["reduced_precision"],
        ),  # the first difference, in front of which a layer was found
        ("act/0/logits", 0.003, 0.051, []),
        (None, 0.003, 0.051, ["reduced_precision"]),
    ],
)
def test_a_narrower_float_is_as_far_off_as_what_it_explains_not_as_outputs_that_show_the_place(
    explained, layer, declared, named
):
    def first_at(key, apart, **decisive):
        check = Check("lockstep", 0, key, "different", difference=7 * apart, size=7.0)
        return FirstDifference(check, "act", key.rpartition("/")[2], "0", None, **decisive)

    # A pair of outputs of one size, which have nothing to do with each other.
    place = SimpleNamespace(layer="dense", fed_by=True, reference=np.eye(3), candidate=-np.eye(3))
    before = {} if declared is None else {"decisive": first_at("act/0/logits", declared)}
    located = SimpleNamespace(place=place, first=first_at("act/0/dense", layer, **before))
    cause = Cause("reduced_precision", "", "", "", explained and Explained(0, explained))
    assert [each.name for each in fitting([cause], located)] == named
