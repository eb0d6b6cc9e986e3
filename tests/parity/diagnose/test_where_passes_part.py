"""What is told of the two ops at which passes part: what each computes, what it broadcasts, and what was made of weights."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.made_passes import passed

from parity.diagnose.located.op_inputs import cause_of_broadcast, cause_of_weights
from parity.diagnose.located.ops import (
    PROVEN_BY_BOTH,
    PROVEN_BY_PORT,
    _fed_alike,
    _fed_rightly,
    _known,
    _op,
    cause_at_op,
)
from parity.diagnose.located.search import AtLayer
from parity.judge import Join
from parity.locate import locate
from parity.mapping import Mapping
from parity.trace import Operand, parse_key

RANDOM = np.random.default_rng(51)
X, W, V = (RANDOM.normal(size=size) for size in ((6, 4), (4, 5), (5, 3)))
BESIDE = RANDOM.normal(size=(6, 5))
H = X @ W
WEIGHTS = {"one": W, "two": V}


def relu(x):
    return np.maximum(x, 0.0)


def odd(x):
    """What no rule gives."""
    return np.sin(3 * x) * np.cos(x) + 0.1


def net(*middle):
    """A product with a weight, some ops, a product with another weight, and a mean."""
    ops = [("MatMul", [X, W], H), *middle]
    made = ops[-1][2] @ V
    side = passed(*ops, ("MatMul", [len(ops) - 1, V], made), ("Mean", [len(ops)], made.mean()))
    listed = list(side.ops)
    for number, name, at in ((0, "one", 1), (len(ops), "two", 1)):
        operands = tuple(
            each._replace(name=name) if place == at else each for place, each in enumerate(listed[number].operands)
        )
        listed[number] = listed[number]._replace(weights=[name], operands=operands, name=f"{name}/MatMul")
    return side._replace(ops=listed)


def port(side):
    """The same pass from another file, with weights of the port's names."""
    return side._replace(ops=[op._replace(line=op.line._replace(file="port.py")) for op in side.ops])


def parted(one, other):
    return locate(one, port(other), {name: (name,) for name in WEIGHTS}, {name: v.shape for name, v in WEIGHTS.items()})


def test_the_function_that_gives_the_ports_numbers_is_told_with_both_lines():
    cause = cause_at_op(parted(net(("Relu", [0], relu(H))), net(("tanh", [0], np.tanh(H)))))
    assert cause.name == "activation_function"
    assert "port.py:2" in cause.title and "model.py:2" in cause.title


def test_what_no_rule_gives_is_told_by_its_place_where_what_goes_in_is_the_same():
    cause = cause_at_op(parted(net(("Relu", [0], relu(H))), net(("odd", [0], odd(H)))))
    assert cause.name == "other_operation" and PROVEN_BY_BOTH in cause.evidence
    of_both = net(("AddV2", [0, BESIDE], H + BESIDE))
    cause = cause_at_op(parted(of_both, net(("odd", [0], odd(H)))))
    assert cause.name == "other_operation" and PROVEN_BY_PORT in cause.evidence, (
        "the reference takes what the port has not"
    )


def test_nothing_is_told_of_what_takes_something_that_the_other_side_has_nowhere():
    unknown = RANDOM.normal(size=(6, 5))
    one, other = net(("AddV2", [0, BESIDE], H + BESIDE)), net(("odd", [0, unknown], odd(H) + unknown))
    assert cause_at_op(parted(one, other)) is None
    assert cause_at_op(parted(one, net(("odd", [0, BESIDE], odd(H) + BESIDE)))) is not None


def test_nothing_is_told_without_a_line_or_operands():
    one, other = net(("Relu", [0], relu(H))), net(("tanh", [0], np.tanh(H)))
    place = parted(one, other)
    for number, changes in ((0, {"line": None}), (0, {"operands": ()}), (1, {"line": None}), (1, {"operands": ()})):
        passes = list(place.passes)
        ops = [op._replace(**changes) if at == 1 else op for at, op in enumerate(passes[number].ops)]
        passes[number] = passes[number]._replace(ops=ops)
        assert cause_at_op(place._replace(passes=tuple(passes))) is None
    parting = place.parting
    for lacking in (parting._replace(reference=None), parting._replace(candidate=None)):
        assert cause_at_op(place._replace(parting=lacking)) is None


def test_an_op_is_left_out_behind_a_new_layout_too():
    turned = ("Transpose", [1, np.array([1, 0])], relu(H).T), ("Mul", [2, BESIDE.T], relu(H).T * BESIDE.T)
    one = net(("Relu", [0], relu(H)), *turned, ("Transpose", [3, np.array([1, 0])], relu(H) * BESIDE))
    other = net(("t", [0], H.T), ("mul", [1, BESIDE.T], H.T * BESIDE.T), ("t", [2], H * BESIDE))
    cause = cause_at_op(parted(one, other))
    assert cause is not None and cause.name == "activation_function" and "leaves out relu" in cause.title


def test_a_product_that_the_port_does_behind_a_sum_is_not_left_out():
    scaled = H * BESIDE
    other = RANDOM.normal(size=H.shape)
    one = net(("Mul", [0, BESIDE], scaled), ("AddV2", [1, other], scaled + other))
    two = net(("add", [0, other], H + other), ("mul", [1, BESIDE], (H + other) * BESIDE))
    cause = cause_at_op(parted(one, two))
    assert cause.name == "other_operation" and "does mul later" in cause.title
    without = net(("add", [0, other], H + other))
    assert cause_at_op(parted(one, without)).name == "op_left_out"


def test_a_difference_that_a_loss_function_takes_by_itself_is_not_left_out():
    wanted = RANDOM.normal(size=H.shape)
    inside = (RANDOM.random(H.shape) < 0.5) * 1.0
    apart = inside * (H - wanted)
    one = net(("Sub", [0, wanted], H - wanted), ("Mul", [1, inside], apart), ("Square", [2], apart**2))
    loss = np.abs(apart) + 0.1 * apart
    for kind, named in (("smooth_l1_loss of each", False), ("hypot", True)):
        cause = cause_at_op(parted(one, net(("mul", [0, inside], H * inside), (kind, [1, inside * wanted], loss))))
        assert (cause is not None and cause.name == "op_left_out") == named


LABELS = RANDOM.normal(size=6)


def loss(of_torch, expanded=False):
    """Scores of examples less labels, squared: in the port a column less a row."""
    score = (H @ V)[:, 0]
    ops = [("MatMul", [X, W], H), ("MatMul", [0, V[:, :1]], score[:, None])]
    off = (score[:, None] - LABELS) if of_torch else (score - LABELS)
    if not of_torch:
        ops.append(("Squeeze", [1], score))
    if expanded:
        ops.append(("expand", [1], np.broadcast_to(score[:, None], (6, 6))))
    at = len(ops)
    ops += [("sub", [at - 1, LABELS], off), ("square", [at], off**2), ("mean", [at + 1], (off**2).mean())]
    return passed(*ops)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize(("of_loss", "name"), [(True, "loss_reduction"), (False, "op_left_out")])
def test_a_column_against_a_row_is_told_to_pair_each_with_each(expanded, of_loss, name):
    place = locate(loss(False), port(loss(True, expanded)), {}, {})
    cause = cause_of_broadcast(place, of_loss)
    assert cause.name == name
    assert "[6, 1] against [6] to [6, 6], where the reference has [6]" in cause.title
    assert "port.py:" in cause.title and "model.py:" in cause.title
    assert cause_at_op(place).name == "loss_reduction", "behind all layers"


def test_no_broadcast_is_told_where_the_numbers_are_others_or_an_operand_is_not_known():
    other = loss(True)
    place = locate(loss(False), port(other), {}, {})
    hidden = place.passes[1]._replace(operand=lambda number, at: None)
    assert cause_of_broadcast(place._replace(passes=(place.passes[0], hidden)), True) is None
    assert cause_of_broadcast(place._replace(parting=place.parting._replace(candidate=None)), True) is None
    assert cause_of_broadcast(parted(net(("Relu", [0], relu(H))), net(("tanh", [0], np.tanh(H)))), True) is None


def with_weight(function, side="model.py"):
    """A product with something made of a weight, which no op shows."""
    made = X @ function(W)
    ops = [("Relu", [X], X), ("MatMul", [0, function(W)], made), ("Mean", [1], (made**2).mean())]
    found = passed(*ops)
    operands = found.ops[1].operands[0], Operand("1", "", None, list(W.shape))
    listed = [found.ops[0], found.ops[1]._replace(weights=["one"], operands=operands), found.ops[2]]
    return found._replace(ops=[op._replace(line=op.line._replace(file=side)) for op in listed])


def test_what_a_port_makes_of_a_weight_before_an_op_takes_it_is_told():
    place = locate(with_weight(np.exp), with_weight(np.tanh, "port.py"), {"one": ("one",)}, {"one": W.shape})
    cause = cause_of_weights(place, {"one": W, "two": V})
    assert cause.name == "activation_function" and "of one the port takes" in cause.title.replace("makes", "takes")
    assert "port.py:2" in cause.title and "model.py:2" in cause.title
    assert cause_of_weights(place, {"two": V}) is None, "another weight"
    assert cause_of_weights(place, {"one": V}) is None, "of another size"
    assert cause_of_weights(place._replace(parting=place.parting._replace(candidate=None)), {"one": W}) is None
    same = locate(with_weight(np.exp), with_weight(np.exp), {"one": ("one",)}, {"one": W.shape})
    assert same is None


class File(dict):
    """A step of a trace."""

    def keys(self, *quantities):
        return [key for key in map(parse_key, self) if key.quantity in quantities]

    def read(self, text):
        return self[str(text)]

    def __contains__(self, text):
        return super().__contains__(str(text))


class Sided:
    def __init__(self, made):
        self.made, self.variables, self.facts, self.step_numbers = File(made), {}, {}, [0]

    def step(self, number):
        return self.made


def test_outputs_of_a_layer_that_was_found_stand_beside_those_that_are_recorded_of_its_tower():
    recorded = {"act/0/hidden": X, "act/0/other": X + 1, "act/1/hidden": X + 2, "loss/0": np.array(1.5)}
    sides = Sided(recorded), Sided({text: value * 2 for text, value in recorded.items()})
    found = AtLayer(Join(Mapping([]), {}, []), *sides, None, 2, "hidden", "0", (H, 3 * H))
    assert [name for name, *_ in found.pairs(0, "act", "", "0")] == ["hidden", "other"]
    _, one, other = next(found.pairs(0, "act", "", "0"))
    assert one is H and np.array_equal(other, 3 * H)
    ((name, one, _),) = found.pairs(0, "act", "", "1")
    assert name == "hidden" and np.array_equal(one, X + 2)
    assert [name for name, *_ in found.pairs(0, "loss", "", "0")] == [""]
    for outputs in (None, (H, H * np.inf)):
        unpaired = AtLayer(found.join, *sides, None, 2, "hidden", "0", outputs)
        pairs = {name: one for name, one, _ in unpaired.pairs(0, "act", "", "0")}
        assert set(pairs) == {"hidden", "other"} and np.array_equal(pairs["hidden"], X)


def fed(reference, candidate, judge):
    """What is said of what the last ops of two passes take; of `reference` and `candidate` the ops."""
    ops = [_op(side, len(side.ops) - 1) for side in (reference, candidate)]
    return judge(SimpleNamespace(passes=(reference, candidate)), ops)


def alike(place, ops):
    return _fed_alike(place, *ops)


def rightly(place, ops):
    return _fed_rightly(place, ops[1])


MEAN = np.array(H.mean())


def behind(*takes, before=()):
    """A product, further ops, and an op that takes these."""
    return passed(("MatMul", [X, W], H), *before, ("odd", [*takes], odd(H)))


@pytest.mark.parametrize("constant", [MEAN, np.array([float(MEAN)])])
def test_a_constant_that_happens_to_be_a_number_of_the_ports_proves_nothing(constant):
    scalar = ("Mean", [0], MEAN)
    computed = behind(0, 1, before=[scalar])
    assert fed(behind(0, 1, before=[scalar]), computed, rightly) and fed(behind(0, 1, before=[scalar]), computed, alike)
    # In the reference the number stands as a constant only, of something else.
    constant_alone = behind(0, constant)
    assert not fed(constant_alone, computed, rightly) and not fed(constant_alone, computed, alike)
    assert not fed(computed, constant_alone, alike), "the reference takes what the port has not"


@pytest.mark.parametrize(("size", "there"), [(1, False), (2, True)])
def test_arrays_of_two_numbers_and_more_are_known_of_a_pass_and_constants_are_not(size, there):
    given = RANDOM.normal(size=size)
    side = passed(("AddV2", [given, X], X), ("Relu", [0], relu(X)))
    found = [each.shape for each in _known(side)]
    assert found == [X.shape, *([(size,)] if there else []), X.shape, X.shape]


@pytest.mark.parametrize("off", [0.0, 1e-10, 1e-7])
def test_what_two_ops_take_is_the_same_to_a_billionth_in_any_layout(off):
    near = off < 1e-9
    reference = passed(("MatMul", [X, W], H), ("odd", [0, BESIDE], odd(H)))
    candidate = passed(("MatMul", [X, W], H * (1 + off)), ("odd", [0, BESIDE.T], odd(H)))
    assert fed(reference, candidate, alike) is near
    assert fed(reference, candidate, rightly) is near


def test_ops_that_have_nothing_in_common_or_take_what_is_not_known_are_not_fed_alike():
    further = [("Relu", [0], relu(H))]
    one, other = behind(0, before=further), behind(1, before=further)
    assert not fed(one, other, alike), "each takes what the other side has elsewhere"
    assert fed(one, other, rightly)
    lost = one._replace(operand=lambda number, at: None)
    assert not fed(lost, one, alike) and not fed(one, lost, alike) and not fed(one, lost, rightly)
    first = passed(("MatMul", [X, W], odd(H)))
    assert fed(one, first, rightly) is False, "nothing of what it takes was computed"


@pytest.mark.parametrize(
    ("taker", "line", "shown"),
    [
        ("next.relu", 9, 2),  # of another module
        ("block.norm", 9, None),  # called where the layers are called
        ("", 9, None),
        ("", 1, 2),  # in the next step of a loop
    ],
)
def test_a_sum_that_is_left_out_around_layers_is_told_where_they_end_unless_what_takes_it_is_beside_it(
    taker, line, shown
):
    inner, out = relu(H), np.tanh(relu(H))
    layers = [("Relu", [0], inner), ("Tanh", [1], out)]
    one = net(*layers, ("AddV2", [2, 0], H + out), ("Tanh", [3], np.tanh(H + out)))
    other = net(*layers, ("tanh", [2], np.tanh(out)))
    named = {1: "block.relu", 2: "block.out", 3: taker}
    ops = [op._replace(name=named.get(number, op.name)) for number, op in enumerate(other.ops)]
    ops[3] = ops[3]._replace(line=ops[3].line._replace(line=line))
    cause = cause_at_op(parted(one, other._replace(ops=ops)))
    assert (cause.name, cause.op) == ("op_left_out", shown)


def test_of_a_sum_of_two_things_of_which_none_is_made_of_the_other_nobody_can_say_which_lacks_it():
    one = net(
        ("Tanh", [0], np.tanh(H)),
        ("AddV2", [1, BESIDE], np.tanh(H) + BESIDE),
        ("Tanh", [2], np.tanh(np.tanh(H) + BESIDE)),
    )
    other = net(("tanh", [0], np.tanh(H)), ("tanh", [1], np.tanh(np.tanh(H))))
    assert cause_at_op(parted(one, other)).op is None
