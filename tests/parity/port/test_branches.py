"""tf.cond in a port: the branch that training takes is written, in an order that Python can run."""

import numpy as np

from parity.port.tower.border import border_of
from parity.port.tower.fold import CHOICE, fold
from parity.port.tower.ops import CONST, FEED, SETTING, VARIABLE, Op, Tower, Write


def op(kind, *inputs, name="op", place=0, shapes=((),), **attributes):
    return Op(
        kind,
        name,
        [each if isinstance(each, tuple) else each.output() for each in inputs],
        attributes,
        list(shapes),
        ["float32"],
        place,
    )


def branches(condition):
    x = op(FEED, name="x")
    chosen = op(CONST, name="training", value=np.array(condition))
    switch = op("Switch", x, chosen, shapes=((), ()))
    outside, inside = op("Exp", switch.output(0)), op("Log", switch.output(1))
    return outside, inside, op("Merge", outside, inside, shapes=((), ()))


def test_a_condition_that_is_known_leaves_one_branch():
    for condition, kind in ((False, "Exp"), (True, "Log")):
        folded = fold(Tower(branches(condition)[2].output()))
        assert folded.loss.kind == kind
        assert folded.loss.op.inputs[0].kind == FEED


def test_a_condition_that_is_not_known_leaves_both():
    x, fed = op(FEED, name="x"), op(FEED, name="training")
    switch = op("Switch", x, fed, shapes=((), ()))
    merge = op("Merge", op("Exp", switch.output(0)), op("Log", switch.output(1)), shapes=((), ()))
    loss = fold(Tower(merge.output())).loss
    assert loss.kind == CHOICE
    assert [each.kind for each in loss.op.inputs] == [FEED, "Log", "Exp"]


def test_what_the_branch_that_is_not_taken_writes_is_no_statistic():
    outside, inside, merge = branches(True)
    writes = [Write("mean", "AssignSub", each.output()) for each in (outside, inside)]
    folded = fold(Tower(merge.output(), writes=writes))
    assert [each.value.kind for each in folded.writes] == ["Log"]


def test_ops_come_after_what_they_take_where_the_graph_has_them_before():
    weight = op(VARIABLE, name="w")
    late = op("Exp", op(FEED, name="x"), place=9)  # tf.cond makes a switch after the op of the branch that takes it
    product = op("Mul", late, weight, place=3)
    border = border_of([op("Mean", product, place=4).output()])
    assert [each.kind for each in [*border.model, *border.loss]].index("Exp") == 0


def test_a_condition_on_what_a_script_sets_is_a_choice_between_two_numbers():
    epoch = op(SETTING, name="epoch", value=np.array(1))
    late = op("Greater", epoch, op(CONST, name="bound", value=np.array(30)), name="late")
    rates = [op(CONST, name=f"rate{rate}", value=np.array(rate)) for rate in (0.0, 0.5)]
    switches = [op("Switch", rate, late, shapes=((), ())) for rate in rates]
    merge = op("Merge", switches[0].output(0), switches[1].output(1), name="merge")
    folded = fold(Tower(merge.output()))
    assert folded.loss.kind == CHOICE
    assert [each.op.name for each in folded.loss.op.inputs] == ["late", "rate0.5", "rate0.0"]
