"""Cells of recurrent networks in ports, found in the ops of a step."""

import numpy as np
import pytest

from parity.port.tower.cells import raise_cells
from parity.port.tower.layers import GRU_CELL, LINEAR, LSTM_CELL
from parity.port.tower.ops import CONST, FEED, Op, Tower
from parity.port.tower.simplify import HITS, simplify

STATE = (2, 4)


def made(kind, *inputs, shapes=(STATE,), name="", **attributes):
    return Op(kind, name or kind, [*inputs], attributes, [*shapes], ["float32"])


def fed(name, shape=STATE):
    return Op(FEED, name, [], {}, [shape], ["float32"]).output()


def number(value):
    return Op(CONST, str(value), [], {"value": np.array(value)}, [()], ["float32"]).output()


def of(kind, *inputs):
    return made(kind, *inputs).output()


def dense(x, state, width, name):
    joined = made("ConcatV2", x, state, number(1), shapes=[(2, 7)]).output()
    return made(
        LINEAR, joined, shapes=[(2, width)], weight=f"{name}/kernel", bias=f"{name}/bias", turned=False
    ).output()


def split(gates, count):
    op = made("Split", number(1), gates, shapes=[STATE] * count, num_split=count)
    return [op.output(index) for index in range(count)]


def lstm(order="ijfo", forget=1.0, swapped=False):
    """The output of a step, and the new cell."""
    x, c, h = fed("x", (2, 3)), fed("c"), fed("h")
    gates = dict(zip(order, split(dense(x, h, 16, "lstm"), 4), strict=True))
    kept = [c, of("Sigmoid", of("AddV2", gates["f"], number(forget)))]
    added = [of("Sigmoid", gates["i"]), of("Tanh", gates["j"])]
    new = of("Add", of("Mul", *kept[:: -1 if swapped else 1]), of("Mul", *added[:: -1 if swapped else 1]))
    ends = [of("Tanh", new), of("Sigmoid", gates["o"])]
    return of("Mul", *ends[:: -1 if swapped else 1]), new


def kinds(tower):
    return [op.kind for op in tower.ops()]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_step_of_an_lstm_is_a_cell_with_its_forget_bias(swapped):
    output, new = lstm(forget=0.5, swapped=swapped)
    raised = raise_cells(Tower(of("Sub", output, new)))
    first, second = raised.loss.op.inputs
    assert first.op is second.op
    assert (first.kind, first.number, second.number) == (LSTM_CELL, 0, 1)
    assert first.op.attributes == {"weight": "lstm/kernel", "bias": "lstm/bias", "forget_bias": 0.5}
    assert [each.op.name for each in first.op.inputs] == ["x", "c", "h"]
    assert LINEAR not in kinds(raised)


@pytest.mark.parametrize("order", ["ifjo", "jifo", "ijof"])
def test_gates_in_another_order_are_no_cell(order):
    output, new = lstm(order)
    assert LSTM_CELL not in kinds(raise_cells(Tower(of("Sub", output, new))))


def test_a_weight_that_another_layer_reads_too_stays_with_the_ops():
    output, _ = lstm()
    other = dense(fed("y", (2, 3)), fed("z"), 16, "lstm")
    found = kinds(raise_cells(Tower(made("Sub", of("Sum", output), of("Sum", other)).output())))
    assert LSTM_CELL not in found
    assert found.count(LINEAR) == 2


def gru(kept=1):
    x, h = fed("x", (2, 3)), fed("h")
    gates = split(of("Sigmoid", dense(x, h, 8, "gates")), 2)
    gates[0].op.inputs[1].op.shapes[0] = (2, 8)
    candidate = of("Tanh", dense(x, of("Mul", gates[0], h), 4, "candidate"))
    return of("AddV2", of("Mul", gates[1], h), of("Mul", of("Sub", number(1), gates[kept]), candidate))


def test_a_step_of_a_gru_is_a_cell():
    cell = raise_cells(Tower(of("Neg", gru()))).loss.op.inputs[0].op
    assert cell.kind == GRU_CELL
    assert [each.op.name for each in cell.inputs] == ["x", "h"]
    assert cell.attributes == {
        "gates_weight": "gates/kernel",
        "gates_bias": "gates/bias",
        "candidate_weight": "candidate/kernel",
        "candidate_bias": "candidate/bias",
    }


def test_a_gru_that_mixes_by_another_gate_is_no_cell():
    assert GRU_CELL not in kinds(raise_cells(Tower(of("Neg", gru(kept=0)))))


# What sampled losses are made of.


def hits(places=("rows", "columns"), default=0.0):
    true, candidates = fed("true", (2, 1)), fed("candidates", (5,))
    found = made("ComputeAccidentalHits", true, candidates, shapes=[(1,)] * 3)
    columns = {"rows": found.output(0), "columns": of("Cast", found.output(1))}
    where = made("ConcatV2", *(columns[each] for each in places), number(1), shapes=[(1, 2)]).output()
    shape = Op(CONST, "shape", [], {"value": np.array([2, 5])}, [(2,)], ["int32"]).output()
    return made("SparseToDense", where, shape, found.output(2), number(default), shapes=[(2, 5)]).output()


def test_accidental_hits_are_a_comparison_of_classes():
    op = simplify(Tower(made("Sum", hits(), shapes=[()]).output())).loss.op.inputs[0].op
    assert op.kind == HITS
    assert [each.op.name for each in op.inputs] == ["true", "candidates"]


@pytest.mark.parametrize("other", [{"places": ("columns", "rows")}, {"default": 1.0}])
def test_anything_else_made_dense_of_hits_is_not(other):
    assert HITS not in kinds(simplify(Tower(made("Sum", hits(**other), shapes=[()]).output())))


def test_the_label_that_is_always_the_first_class_is_a_class():
    labels = Op(CONST, "labels", [], {"value": np.eye(6)[[0, 0]]}, [(2, 6)], ["float32"]).output()
    entropy = made("SoftmaxCrossEntropyWithLogits", fed("logits", (2, 6)), labels, shapes=[(2,)]).output()
    found = simplify(Tower(made("Mean", entropy, number(0), shapes=[()]).output())).loss.op.inputs[0].op
    assert found.kind == "SparseSoftmaxCrossEntropyWithLogits"
    assert found.inputs[1].value.tolist() == [0, 0]
