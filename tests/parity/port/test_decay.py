"""Weight decay among the terms of a loss: joined where its factor is the same, a number or what is computed."""

import numpy as np

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.ops import CONST, SETTING, VARIABLE, Op, ops_of
from parity.port.tower.terms import with_decay

NAMES = ("one/w", "two/w", "three/w")


def op(kind, *inputs, name="op", place=0, shape=(), **attributes):
    return Op(kind, name, [each.output() for each in inputs], attributes, [shape], ["float32"], place)


def number(value):
    return op(CONST, name="number", value=np.array(value, np.float32))


def decays(factors):
    """Half the squared norm of a weight for each factor, times it."""
    weights = [Op(VARIABLE, name, [], {"kind": "var"}, [(2, 2)], ["float32"]) for name in NAMES]
    pairs = zip(factors, weights, strict=False)
    terms = [
        op("Mul", factor, op("L2Loss", weight, place=place), place=place)
        for place, (factor, weight) in enumerate(pairs)
    ]
    return with_decay([each.output() for each in terms])


def written(terms):
    parameters = Parameters(dict.fromkeys(NAMES, (2, 2)), dict.fromkeys(NAMES, "var"), is_whole=True)
    writer = Writer(parameters, "module", {}, suggested=lambda op: "wd" if op.kind == "Choice" else "")
    for name in NAMES:
        parameters.plain(name, "module")
    codes = writer.write(ops_of(terms), terms)
    return [*writer.statements, *(each.text for each in codes)]


def test_a_factor_that_is_computed_joins_the_weights_that_it_is_of():
    setting = Op(SETTING, "epoch", [], {"value": np.array(1)}, [()], ["int32"])
    early = op("Greater", number(30), setting, name="early", shape=())
    wd = op("Choice", early, number(0.5), number(0.25), place=0)
    (term,) = decays([wd] * 3)
    assert term.op.inputs[0].op is wd
    lines = written([term])
    assert lines[1:] == [
        "decay = sum(like_tf.l2_loss(weight) for weight in module.parameters())",
        "wd * decay",
    ]


def test_weights_with_other_factors_are_terms_of_their_own():
    terms = decays([number(0.5), number(0.5), number(0.25)])
    assert [(each.op.attributes["factor"], len(each.op.inputs)) for each in terms] == [(0.5, 2), (0.25, 1)]
