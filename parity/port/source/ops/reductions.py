"""How reductions over axes are written."""

from collections.abc import Sequence

from parity.port.source.code import Code, axes, method
from parity.port.source.writer import Writer, writes
from parity.port.tower.moves import VARIANCE
from parity.port.tower.ops import CONST, Op
from parity.port.tower.simplify import axes_of

TORCH_REDUCTIONS = {
    "Sum": "sum",
    "Mean": "mean",
    "Max": "amax",
    "Min": "amin",
    "Prod": "prod",
    "All": "all",
    "Any": "any",
    VARIANCE: "var",
}
ONE_AXIS = ("prod", "all", "any")  # torch's take one axis


@writes(*TORCH_REDUCTIONS)
def _reduction(writer: Writer, op: Op) -> Code | None:
    found = axes_of(op)
    if found is None:
        return None
    taken = op.inputs[0]
    rank, name = len(taken.shape), TORCH_REDUCTIONS[op.kind]
    keep = True if op.attributes.get("keep_dims") else None
    if len(found) == rank:
        code = writer.as_it_is(taken)
        if keep:
            return (
                _one_axis_after_another(code, name, found, keep)
                if name in ONE_AXIS
                else method(code, name, axes(found), keepdim=True)
            )
        return method(code, {"amax": "max", "amin": "min"}.get(name, name))
    moved = taken in writer.channels_first and (keep or rank - 1 not in found)
    code = writer.code(taken, moved)
    if moved:
        places = {0: 0, rank - 1: 1, **{axis: axis + 1 for axis in range(1, rank - 1)}}
        found = tuple(sorted(places[axis] for axis in found))
        if len(op.output().shape) > 2:
            writer.channels_first.add(op.output())
    if name in ONE_AXIS:
        return _one_axis_after_another(code, name, found, keep)
    return method(code, name, axes(found), keepdim=keep)


def _one_axis_after_another(code: Code, name: str, found: Sequence[int], keep: bool | None) -> Code:
    for axis in sorted(found, reverse=True):
        code = method(code, name, str(axis), keepdim=keep)
    return code


@writes("ArgMax", "ArgMin")
def _place_of_extreme(writer: Writer, op: Op) -> Code | None:
    if op.inputs[1].kind != CONST:
        return None
    return method(writer.code(op.inputs[0]), op.kind.lower(), str(int(op.inputs[1].value)))
