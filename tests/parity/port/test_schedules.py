"""Learning rates of a step: what they are long behind the recorded steps."""

import math

import numpy as np
import pytest

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.functions import Names
from parity.port.tower.ops import CONST, FEED, Op
from parity.port.training.schedules import STEP_ARGUMENT, written_schedule
from parity.port.training.values import folded


def op(kind, *inputs, dtype="float32", **attributes):
    return Op(kind, kind, [each.output() for each in inputs], attributes, [()], [dtype])


def number(value):
    value = np.array(value)
    return op(CONST, dtype=str(value.dtype), value=value)


def rate_at(rate, step):
    (tensor,) = folded([rate.output()])
    written = written_schedule(tensor, Names(lambda op: "", lambda op: ""))
    assert not written.expression and not written.unknown
    source = "\n".join([f"def schedule({STEP_ARGUMENT}):", *(f"    {each}" for each in written.body)])
    defined = {"math": math}
    exec(source, defined)
    return defined["schedule"](step)


STEP = op(FEED)
STEP.name = STEP_ARGUMENT
AS_FLOAT = op("Cast", STEP)
WHOLE_EPOCH = op("Cast", op("RealDiv", AS_FLOAT, number(np.float32(1000))), dtype="int32")


@pytest.mark.parametrize(("step", "rate"), [(0, 0.1), (30_500, 0.1), (31_000, 0.01)])
def test_an_epoch_that_is_cut_to_a_whole_number_stays_one(step, rate):
    late = op("Greater", WHOLE_EPOCH, number(np.int32(30)), dtype="bool")
    assert rate_at(op("Select", late, number(0.01), number(0.1)), step) == rate


def test_a_division_of_whole_numbers_is_no_smooth_decay():
    passed = op("Div", STEP, number(np.int64(1000)), dtype="int64")
    decayed = op("Mul", number(0.1), op("Pow", number(0.5), op("Cast", passed)))
    assert [rate_at(decayed, step) for step in (999, 1000)] == [0.1, 0.05]


def test_a_counter_that_is_cast_is_the_counter():
    (found,) = folded([op("Cast", AS_FLOAT, dtype="int64").output()])
    assert found.op is STEP
