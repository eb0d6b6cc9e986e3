"""Tables of numbers that a script computes, and those that it has: exact in every precision, and no longer than needed."""

from typing import Any

import numpy as np
import pytest

from parity.port.source.ops import arithmetic, rearranging  # noqa: F401  they fill the table of writers
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.border import border_of
from parity.port.tower.fold import fold, with_formulas
from parity.port.tower.layers import LAYER_NORM, raise_layers, settings
from parity.port.tower.ops import CONST, FEED, VARIABLE, Op, Tensor, Tower, ops_of


def constant(value: Any) -> Tensor:
    array = np.asarray(value)
    return Op(CONST, "c", [], {"value": array}, [array.shape], [str(array.dtype)]).output()


def op(kind: str, shape: tuple[int, ...], *inputs: Tensor, **attributes: Any) -> Tensor:
    return Op(kind, kind.lower(), list(inputs), attributes, [shape], ["float32"]).output()


def variable(name: str, *shape: int) -> Tensor:
    return Op(VARIABLE, name, [], {"kind": "var"}, [shape], ["float32"]).output()


def fed(name: str, *shape: int) -> Tensor:
    return Op(FEED, name, [], {}, [shape], ["float32"]).output()


def written(tensor: Tensor) -> list[str]:
    parameters = Parameters({"w": (4,)}, {"w": "var"})
    writer = Writer(parameters, "self", {fed_.output(): fed_.name for fed_ in ops_of([tensor]) if fed_.kind == FEED})
    parameters.plain("w", "self")
    (code,) = writer.write([each for each in ops_of([tensor]) if each.inputs], [tensor])
    return [*writer.statements, code.text, *parameters.statements()]


def positions() -> Tensor:
    return op("Range", (4,), constant(np.float32(3)), constant(np.float32(-1)), constant(np.float32(-1)))


def test_a_table_that_the_script_computes_is_written_as_its_formula():
    table = op("Sin", (4,), op("RealDiv", (4,), positions(), constant(np.float32(10))))
    tower = with_formulas(fold(Tower(op("Mul", (4,), fed("x", 4), table))))
    assert written(tower.loss)[0] == "x * torch.sin(torch.arange(3, -1, -1).to(self.w) / 10)"


def test_a_table_of_whole_numbers_stays_one():
    # Indices and shapes: what takes them wants numbers.
    places = op("Range", (4,), constant(3), constant(-1), constant(-1))
    tower = with_formulas(fold(Tower(op("GatherV2", (4,), fed("x", 4), places, constant(0)))))
    assert tower.loss.op.inputs[1].kind == CONST


def test_steps_that_are_no_whole_numbers_are_counted_in_float64():
    table = op("Range", (4,), constant(np.float32(0)), constant(np.float32(0.4)), constant(np.float32(0.1)))
    tower = with_formulas(fold(Tower(op("Mul", (4,), fed("x", 4), table))))
    assert written(tower.loss)[0] == "x * torch.arange(0.0, 0.4, 0.1, dtype=torch.float64).to(self.w)"


def test_a_range_to_what_is_computed_is_left_to_be_written():
    writer = Writer(Parameters({"w": (4,)}, {"w": "var"}), "self", {})
    stop = fed("stop")
    writer.call_it(stop, "stop")
    writer.write([op("Range", (4,), constant(0.0), stop, constant(1.0)).op], [])
    assert [each.kind for each in writer.refused] == ["Range"]


@pytest.mark.parametrize(
    ("numbers", "text", "dtype"),
    [([0.299, 0.587], "x * self.c.to(self.w.dtype)", ", dtype=torch.float64"), ([0.5, 3.0], "x * self.c", "")],
)
def test_numbers_that_float32_has_not_are_kept_in_float64(numbers, text, dtype):
    lines = written(op("Mul", (2,), fed("x", 2), constant(np.array(numbers))))
    assert lines[0] == text
    assert lines[-1].endswith(f"]{dtype}), persistent=False)")


def normed(x: Tensor, number: int) -> Tensor:
    """As tf.contrib.layers.layer_norm writes it."""
    axes = constant(np.array([1]))
    mean = op("Mean", (2, 1), x, axes, keep_dims=True)
    spread = op("SquaredDifference", (2, 4), x, op("StopGradient", (2, 1), mean))
    variance = op("Mean", (2, 1), spread, axes, keep_dims=True)
    root = op("Rsqrt", (2, 1), op("Add", (2, 1), variance, constant(1e-12)))
    scale = op("Mul", (2, 4), root, variable(f"gamma{number}", 4))
    shift = op("Sub", (2, 4), variable(f"beta{number}", 4), op("Mul", (2, 4), mean, scale))
    return op("Add", (2, 4), op("Mul", (2, 4), x, scale), shift)


def test_layer_norms_one_behind_the_other_are_told_by_their_variables_alone():
    x = fed("x", 2, 4)
    for number in range(40):  # what a norm is computed of is no part of what it is: 2 ** 40 paths lead to it
        x = normed(x, number)
    layers = [each for each in raise_layers(Tower(x)).ops() if each.kind == LAYER_NORM]
    assert len({settings(each) for each in layers}) == 40


def test_the_text_of_an_op_does_not_hold_all_that_it_is_computed_of():
    x = fed("x", 2, 4)
    for _ in range(40):
        x = op("Add", (2, 4), x, x)
    assert len(repr(x)) < 200


def generated() -> Tensor:
    noise = op("RandomStandardNormal", (2, 3), constant(np.array([2, 3])))
    return op("Relu", (2, 4), op("MatMul", (2, 4), noise, variable("generator", 3, 4)))


def mean(x: Tensor) -> Tensor:
    return op("Mean", (), x, constant(np.array([0, 1])))


def test_the_noise_that_a_generator_takes_is_data():
    judged = op("Tanh", (2, 1), op("MatMul", (2, 1), generated(), variable("critic", 4, 1)))
    border = border_of([mean(op("Square", (2, 1), judged))])
    assert [each.kind for each in border.model] == ["RandomStandardNormal", "MatMul", "Relu", "MatMul", "Tanh"]
    assert border.data == []


def test_what_noise_is_made_into_is_the_models_beside_what_is_fed_too():
    critic = variable("critic", 4, 1)
    real = op("Tanh", (2, 1), op("MatMul", (2, 1), fed("images", 2, 4), critic))
    fake = op("Tanh", (2, 1), op("MatMul", (2, 1), generated(), critic))
    border = border_of([op("Sub", (), mean(fake), mean(real))])
    assert "RandomStandardNormal" in [each.kind for each in border.model]
    assert [each.kind for each in border.loss] == ["Mean", "Mean", "Sub"]
    assert border.data == ["images"]
