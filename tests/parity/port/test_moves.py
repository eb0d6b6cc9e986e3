"""Statistics that are no layer's are written op by op, as TensorFlow's zero-debiased averages are."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.functions import is_moving, moving_tower, prepared
from parity.port.source.moves import write_moves
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.moves import moves_of, with_own_moves
from parity.port.tower.ops import CONST, FEED, VARIABLE, Op, Tower, Write
from parity.port.tower.statistics import moved
from parity.port.training.optimizer import sharing_of

STATES = ("mean/biased", "mean/local_step")


def op(kind, *inputs, name="op", place=0, shape=(), **attributes):
    return Op(kind, name, [each.output() for each in inputs], attributes, [shape], ["float32"], place)


def variable(kind, name, shape=()):
    return Op(VARIABLE, name, [], {"kind": kind}, [shape], ["float32"])


def number(value):
    return op(CONST, name="number", value=np.array(value, np.float32))


class Averaged:
    """What assign_moving_average writes with zero_debias, of the mean of what a tower multiplies with a weight."""

    def __init__(self, scope, place, model=None, decay=None):
        self.states = [variable("state", name, shape) for name, shape in zip(STATES, ((3,), ()), strict=True)]
        biased, local_step = self.states
        weight = variable("var", "w", (3,))
        self.model = model or op("Mul", op(FEED, name="x", shape=(2, 3)), weight, name=scope, shape=(2, 3), place=place)
        axes = op(CONST, name="axes", value=np.array([0]))
        kept = op("Mean", self.model, axes, name=f"{scope}/mean", shape=(1, 3), place=place + 1, keep_dims=True)
        batch = op("Squeeze", kept, name=f"{scope}/batch", shape=(3,), place=place + 2)
        rate = decay or number(0.125)
        move = op("Mul", op("Sub", biased, batch, shape=(3,), place=place + 3), rate, shape=(3,), place=place + 4)
        after = op("Sub", biased, move, name=f"{scope}/AssignSub", shape=(3,), place=place + 5)
        count = op("Add", local_step, number(1), name=f"{scope}/AssignAdd", place=place + 6)
        power = op("Pow", op("Sub", number(1), rate, place=place + 7), count, place=place + 8)
        debiased = op("RealDiv", after, op("Sub", number(1), power, place=place + 9), shape=(3,), place=place + 10)
        self.writes = [
            Write("mean", "Assign", debiased.output(), debiased.output()),
            Write(STATES[0], "AssignSub", move.output(), after.output(), False),
            Write(STATES[1], "AssignAdd", number(1).output(), count.output(), False),
        ]


def written(model, moves):
    parameters = Parameters({"mean": (3,), "w": (3,)}, {"mean": "stat", "w": "var"})
    parameters.hold(each for each in Averaged("any", 0).states)
    writer = Writer(parameters, "self", {model.output(): "y"})
    write_moves(writer, moves, [model])
    return writer.statements, parameters


def test_a_statistic_that_is_zero_debiased_is_computed_of_what_was_there_before():
    one = Averaged("tower_0", 0)
    statements, parameters = written(one.model, moves_of(Tower(one.model.output(), writes=one.writes), []))
    assert statements[:2] == ["if self.training:", "    with torch.no_grad():"]
    assert set(parameters.mapping()) == {"mean", *STATES}
    assert set(parameters.buffers()) == {each for each, _ in parameters.mapping().values()}

    torch = pytest.importorskip("torch")
    from torch_ddp import like_tf

    module = torch.nn.Module()
    for name, (own, _) in parameters.mapping().items():
        module.register_buffer(own, torch.zeros(() if name == STATES[1] else 3, dtype=torch.float64))
    average = like_tf.MovingAverage(0.875, zero_debias=True)
    for step in range(4):
        y = torch.arange(6.0, dtype=torch.float64).reshape(2, 3) * (step + 1) ** 2
        exec("\n".join(statements), {"torch": torch, "self": module, "y": y})
        assert torch.equal(getattr(module, parameters.mapping()["mean"][0]), average.update(y.mean(0)))
    assert getattr(module, parameters.mapping()[STATES[1]][0]) == 4


def test_a_statistic_that_is_zero_debiased_is_recognised_with_the_variables_that_it_is_computed_of():
    write = Averaged("tower_0", 0).writes[0]
    power = write.value.op.inputs[1].op.inputs[1].op
    power.inputs[0] = number(0.875).output()  # as it is folded
    found = moved(write.kind, write.value)
    assert (found.source.op.name, found.decay, found.biased, found.step) == ("tower_0/batch", 0.875, *STATES)
    power.inputs[0] = number(0.5).output()  # not what the average keeps
    assert moved(write.kind, write.value) is None


def test_each_tower_writes_what_it_computes_itself():
    own, other = Averaged("tower_0", 0), Averaged("tower_1", 20)
    tower = with_own_moves(Tower(own.model.output(), writes=[*other.writes, *own.writes]))
    chosen = [each.after.op.name for each in tower.writes if each.after is not None and each.variable == STATES[0]]
    assert chosen == ["tower_0/AssignSub"]


def test_what_another_tower_alone_writes_is_not_written():
    own, other = Averaged("tower_0", 0), Averaged("tower_1", 20)
    tower = with_own_moves(Tower(own.model.output(), writes=other.writes))
    assert moves_of(tower, []) == []


def test_a_rate_that_is_not_known_leaves_the_statistic():
    rate = op("State", name="rate")
    one = Averaged("tower_0", 0, decay=rate)
    assert moves_of(with_own_moves(Tower(one.model.output(), writes=one.writes)), []) == []


def towers_of(own, writes):
    """Makes the towers anew each time, as they are read."""
    made = [Averaged("tower_0", 0), Averaged("tower_1", 20)]
    return Tower(made[own].model.output(), writes=[write for each in writes for write in made[each].writes])


@pytest.mark.parametrize(("writes", "number"), [([1], 1), ([0], 0), ([0, 1], 0), ([], 0)])
def test_the_tower_that_moves_the_statistics_is_the_one_that_is_written(writes, number):
    reader = SimpleNamespace(tower=lambda own: towers_of(own, writes))
    first = is_moving(prepared(reader.tower(0)))
    assert first == (0 in writes)
    assert (0 if first else moving_tower(reader, 2)) == number


@pytest.mark.parametrize(("towers", "rank"), [(2, "torch.distributed.get_world_size() - 1"), (3, "1")])
def test_every_rank_takes_the_statistics_of_the_tower_that_moves_them(towers, rank):
    lines = [*sharing_of(SimpleNamespace(moved_by=1, part=SimpleNamespace(towers=towers)))]
    assert f"        torch.distributed.broadcast(buffer, {rank})" in lines
    assert lines[-1] == "optimizer.register_step_post_hook(share)"
    assert not [*sharing_of(SimpleNamespace(moved_by=0, part=SimpleNamespace(towers=towers)))]
