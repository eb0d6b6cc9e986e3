"""How single ops and sums of a loss are written: every form that they may take, on ops made by hand."""

import numpy as np
import pytest

from parity.port.source import program  # noqa: F401  it fills the tables of writers
from parity.port.source.code import COMPARISON, Code
from parity.port.source.functions import MOST_CHARACTERS_OF_A_SUM, _summed
from parity.port.source.parameters import Parameters
from parity.port.source.writer import Writer
from parity.port.tower.ops import CONST, FEED, Op, Tensor

X = Op(FEED, "x", [], {}, [(2, 3, 4, 5)], ["float32"]).output()
FIRST = "if torch.distributed.get_rank() == 0:  # the script adds it in its first tower only"


def constant(value) -> Tensor:
    array = np.asarray(value)
    return Op(CONST, "c", [], {"value": array}, [array.shape], [str(array.dtype)]).output()


def written(kind, axes, shape=(), taken=X, moved=False, **attributes):
    """What is written of a reduction of `taken`, the names of what could not be, and whether channels come first."""
    given = axes if isinstance(axes, Tensor) else constant(axes)
    op = Op(kind, "op", [taken, given], attributes, [shape], ["float32"])
    writer = Writer(Parameters({}, {}), "self", {taken: "x"})
    if moved:
        writer.channels_first.add(taken)
    (found,) = writer.write([op], [op.output()], as_they_are=True)
    return found.text, [each.kind for each in writer.refused], op.output() in writer.channels_first


@pytest.mark.parametrize(("kind", "name"), [("ArgMax", "argmax"), ("ArgMin", "argmin")])
@pytest.mark.parametrize("axis", [0, 3, -1])
def test_the_place_of_an_extreme_is_taken_over_an_axis_that_is_known(kind, name, axis):
    assert written(kind, axis) == (f"x.{name}({axis})", [], False)
    assert written(kind, axis, moved=True)[0] == f"x.permute(0, 2, 3, 1).{name}({axis})"
    computed = Op(FEED, "axis", [], {}, [()], ["int32"]).output()
    op = Op(kind, "op", [X, computed], {}, [(2, 3, 4)], ["int64"])
    writer = Writer(Parameters({}, {}), "self", {X: "x", computed: "axis"})
    (found,) = writer.write([op], [op.output()])
    assert [each.kind for each in writer.refused] == [kind] and found.text.startswith("not_ported_")


@pytest.mark.parametrize(
    ("kind", "axes", "keep", "text"),
    [
        ("Sum", [1], False, "x.sum(1)"),
        ("Sum", [1], True, "x.sum(1, keepdim=True)"),
        ("Mean", [-1, 1], False, "x.mean((1, 3))"),
        ("Mean", [0, 1, 2, 3], False, "x.mean()"),
        ("Mean", [0, 1, 2, 3], True, "x.mean((0, 1, 2, 3), keepdim=True)"),
        ("Max", [2], False, "x.amax(2)"),
        ("Max", [0, 1, 2, 3], False, "x.max()"),
        ("Max", [0, 1, 2, 3], True, "x.amax((0, 1, 2, 3), keepdim=True)"),
        ("Min", [0, 1, 2, 3], False, "x.min()"),
        ("Min", [0, 2], True, "x.amin((0, 2), keepdim=True)"),
        ("Prod", [1, 2], False, "x.prod(2).prod(1)"),
        ("Prod", [1, 2], True, "x.prod(2, keepdim=True).prod(1, keepdim=True)"),
        ("Prod", [0, 1, 2, 3], False, "x.prod()"),
        (
            "All",
            [0, 1, 2, 3],
            True,
            "x.all(3, keepdim=True).all(2, keepdim=True).all(1, keepdim=True).all(0, keepdim=True)",
        ),
        ("Any", [3], False, "x.any(3)"),
    ],
)
def test_a_reduction_is_written_over_the_axes_of_the_script(kind, axes, keep, text):
    assert written(kind, axes, keep_dims=keep) == (text, [], False)


@pytest.mark.parametrize(
    ("axes", "keep", "shape", "text", "moved"),
    [
        # Examples, rows, columns and channels are 0, 2, 3 and 1 there.
        ([1], False, (2, 4, 5), "x.sum(2)", True),
        ([2], False, (2, 3, 5), "x.sum(3)", True),
        ([1, 2], False, (2, 5), "x.sum((2, 3))", False),
        ([0], False, (3, 4, 5), "x.sum(0)", True),
        ([1, 2], True, (2, 1, 1, 5), "x.sum((2, 3), keepdim=True)", True),
        ([3], True, (2, 3, 4, 1), "x.sum(1, keepdim=True)", True),
        ([0, 3], True, (1, 3, 4, 1), "x.sum((0, 1), keepdim=True)", True),
        ([3], False, (2, 3, 4), "x.permute(0, 2, 3, 1).sum(3)", False),
        ([1, 3], False, (2, 4), "x.permute(0, 2, 3, 1).sum((1, 3))", False),
        ([0, 1, 2, 3], False, (), "x.sum()", False),
    ],
)
def test_channels_that_stand_behind_the_examples_are_reduced_where_they_are(axes, keep, shape, text, moved):
    assert written("Sum", axes, shape, moved=True, keep_dims=keep) == (text, [], moved)


def test_a_reduction_over_axes_that_are_not_known_is_refused():
    axes = Op("Range", "axes", [], {}, [(1,)], ["int32"]).output()
    op = Op("Sum", "op", [X, axes], {}, [()], ["float32"])
    writer = Writer(Parameters({}, {}), "self", {X: "x", axes: "axes"})
    writer.write([op], [op.output()])
    assert [each.kind for each in writer.refused] == ["Sum"]


def term(letter, length=1):
    return Code(letter * length)


A, B, OWN, MORE = (term(name) for name in ("a", "b", "own", "more"))
LESS = Code("a < b", COMPARISON)
LONG = [term(letter, 40) for letter in "abc"]
A40, B40, C40 = (each.text for each in LONG)


@pytest.mark.parametrize(
    ("common", "own", "statements"),
    [
        ([], [], ["return 0"]),
        ([A], [], ["return a"]),
        ([A, B], [], ["return a + b"]),
        ([LESS, B], [], ["return (a < b) + b"]),
        ([term("a", 200)], [], [f"return {'a' * 200}"]),
        (LONG, [], [f"loss = {A40}", f"loss = loss + {B40}", f"return loss + {C40}"]),
        ([term("a", 95), LESS, LESS], [], [f"loss = {'a' * 95}", "loss = loss + (a < b)", "return loss + (a < b)"]),
        ([], [OWN], ["loss = 0", FIRST, "    loss = loss + own", "return loss"]),
        ([A, B], [OWN, LESS], ["loss = a + b", FIRST, "    loss = loss + own + (a < b)", "return loss"]),
        ([A], [OWN, MORE], ["loss = a", FIRST, "    loss = loss + own + more", "return loss"]),
        ([term("a", 200)], [OWN], [f"loss = {'a' * 200}", FIRST, "    loss = loss + own", "return loss"]),
        (
            LONG,
            [OWN],
            [
                *(f"loss = {A40}", f"loss = loss + {B40}", f"loss = loss + {C40}"),
                *(FIRST, "    loss = loss + own", "return loss"),
            ],
        ),
    ],
)
def test_a_loss_is_summed_with_what_the_first_tower_alone_adds_behind(common, own, statements):
    assert [*_summed(common, own)] == statements


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("own", [[], [OWN]])
def test_a_sum_is_one_line_up_to_so_many_characters(over, own):
    long = term("a", MOST_CHARACTERS_OF_A_SUM - len(" + b") + over)
    found = [*_summed([long, B], own)]
    at_once = [f"loss = {long.text} + b"] if own else [f"return {long.text} + b"]
    apart = [f"loss = {long.text}", "loss = loss + b" if own else "return loss + b"]
    assert found == (apart if over else at_once) + ([FIRST, "    loss = loss + own", "return loss"] if own else [])
