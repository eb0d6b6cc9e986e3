"""Finds what a reader would call a block in a model: scopes, and calls of the script's functions."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from parity.port.tower.cells import CELL
from parity.port.tower.layers import BATCH_NORM, DROPOUT, DYNAMIC_RNN, LAYER_NORM, LAYERS
from parity.port.tower.loops import BODY
from parity.port.tower.ops import CONST, LOOP, SETTING, VARIABLE, Op, Tensor

CALLED_BLOCK = "Block"
FEWEST_LAYERS = 2  # with weights, norms not counted: a class of fewer says less than the layer itself
MOST_CROSSING = 4  # that a block takes or gives


class Frame(NamedTuple):
    """A line of the script in which an op was made.

    Fields:
      file, line, function, text: as of a frame of `RecordedGraph`.
    """

    file: str
    line: int
    function: str
    text: str


DRAWING_KINDS = (DROPOUT, "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "Multinomial")
WEIGHTS = (
    *("weight", "bias", "mean", "variance"),
    *("mean_biased", "mean_step", "variance_biased", "variance_step"),
    *("gates_weight", "gates_bias", "candidate_weight", "candidate_bias"),
)  # attributes of a layer that name a variable
Frames = Callable[[Op], Sequence[Frame]]


@dataclass(eq=False)
class Region:
    """Ops of a model that form a block.

    Attributes:
      ops: all of them, also those of the blocks inside.
      scope: the name scope that they are, "" where they are none.
      frame: the first line of the function that they are a call of, None where they are none.
      children: the blocks inside.
      taken, given: tensors that cross its border.
    """

    ops: frozenset[Op]
    scope: str = ""
    frame: Frame | None = None
    children: "list[Region]" = field(default_factory=list)
    taken: list[Tensor] = field(default_factory=list)
    given: list[Tensor] = field(default_factory=list)

    @property
    def variables(self) -> frozenset[str]:
        """The script's variables in it."""
        return frozenset(name for op in self.ops for name in variables_of(op))


def variables_of(op: Op) -> Iterator[str]:
    """Yields the names of the variables that an op reads or moves."""
    if op.kind == LOOP:
        for each in op.attributes[BODY].all_ops():
            yield from variables_of(each)
    if op.kind in LAYERS:
        known = op.attributes[CELL].attributes if op.kind == DYNAMIC_RNN else op.attributes
        for name in WEIGHTS:
            if known.get(name):
                yield known[name]
    yield from (each.op.name for each in op.inputs if each.kind == VARIABLE)


def regions_of(
    model: Sequence[Op],
    wanted: Sequence[Tensor],
    frames: Frames,
    no_blocks: AbstractSet[frozenset[str]] = frozenset(),
) -> list[Region]:
    """Returns the outermost blocks of a model, each with those inside of it.

    Args:
      model: its ops, in the order of the script.
      wanted: what it gives.
      frames: the lines of the script that an op was made in, outermost first.
      no_blocks: variables of what is to be no block.
    """
    whole = _weighted(model)
    kept: list[Region] = []
    for region in _candidates(model, frames):
        layers = _weighted(region.ops)
        # Largest first, each only where it fits those kept: what is nested stays nested, and nothing overlaps.
        if FEWEST_LAYERS <= len(layers) < len(whole) and _fits(region, kept) and _closed(region, model, wanted):
            kept.append(region)
    kept = [region for region in _owners(kept, model) if region.variables not in no_blocks]
    return _acyclic(_tree(kept), model)


def _weighted(ops: Iterable[Op]) -> set[str]:
    """The weights of layers that are no norms."""
    layers = (op for op in unrolled(ops) if op.kind in LAYERS and op.kind not in (BATCH_NORM, LAYER_NORM))
    # By variable and not by op: a layer that is called twice is one layer.
    return {next(variables_of(op), "") for op in layers}


def unrolled(ops: Iterable[Op]) -> Iterator[Op]:
    """Yields ops, and behind each loop those inside."""
    for op in ops:
        yield op
        if op.kind == LOOP:
            yield from unrolled(op.attributes[BODY].all_ops())


def _candidates(model: Sequence[Op], frames: Frames) -> list[Region]:
    """Scopes and calls, the largest first; a call that is a scope too is one of them."""
    found: dict[frozenset[Op], Region] = {}
    scopes: dict[str, list[Op]] = {}
    for op in model:
        parts = op.name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            scopes.setdefault("/".join(parts[:depth]), []).append(op)
    for scope, ops in scopes.items():
        # A tower's own scope ("tower_0") holds the whole model and falls to FEWEST_LAYERS < whole.
        found[frozenset(ops)] = Region(frozenset(ops), scope)  # of scopes that are the same ops the innermost
    for frame, ops in _calls(model, frames):
        found.setdefault(frozenset(ops), Region(frozenset(ops))).frame = frame
    # A scope is what the script calls a block; where a call crosses it, the scope stays.
    return sorted(found.values(), key=lambda region: (not region.scope, -len(region.ops)))


def _calls(model: Sequence[Op], frames: Frames) -> Iterator[tuple[Frame, list[Op]]]:
    """Yields the calls of functions with their ops, outer calls before those inside of them."""
    # By the lines that lead to a call: a function called from two lines is two blocks, which may be one class.
    sites: dict[tuple[Frame, ...], list[tuple[Frame, Op]]] = {}
    for op in model:
        stack = [*frames(op)]
        for depth in range(1, len(stack)):
            # Lambdas, comprehensions and module level are no functions that a reader would look for.
            if not stack[depth].function.startswith("<"):
                sites.setdefault(tuple(stack[:depth]), []).append((stack[depth], op))
    for entries in sites.values():
        for call in _split(entries):
            yield min((frame for frame, _ in call), key=lambda frame: frame.line), [op for _, op in call]


def whole_call(model: Sequence[Op], frames: Frames) -> Frame | None:
    """Returns the first line of the innermost function of the script that makes all layers of a model."""
    stacks = [[*frames(op)] for op in model if op.kind in LAYERS]
    found = None
    for depth in range(1, min(map(len, stacks), default=0)):
        if len({tuple(stack[:depth]) for stack in stacks}) > 1:
            break
        own = [stack[depth] for stack in stacks]
        if len({frame.function for frame in own}) == 1 and not own[0].function.startswith("<"):
            found = min(own, key=lambda frame: frame.line)
    return found


def _split(entries: list[tuple[Frame, Op]]) -> Iterator[list[tuple[Frame, Op]]]:
    """Splits what one line calls in a loop: a call begins where the function is back at the line that it began with."""
    call: list[tuple[Frame, Op]] = []
    for frame, op in entries:
        # A function that runs from its first line to its last, and is at its first again, was called once more.
        again = call and frame.line <= call[0][0].line and call[-1][0].line > frame.line
        if call and (again or frame.function != call[0][0].function):
            yield call
            call = []
        call.append((frame, op))
    # All on one line: where one call ends and the next one begins is not known.
    if call and len({frame.line for frame, _ in call}) > 1:
        yield call


def _fits(region: Region, kept: Sequence[Region]) -> bool:
    """Whether a region is inside, around or outside of each other one."""
    return all(region.ops < each.ops or region.ops > each.ops or region.ops.isdisjoint(each.ops) for each in kept)


def _closed(region: Region, model: Sequence[Op], wanted: Sequence[Tensor]) -> bool:
    """Whether a region can be one call: nothing between its ops needs one of them and is needed by another."""
    behind: set[Op] = set()
    for op in model:
        if op in region.ops:
            # Something outside takes from the region and gives back to it: calling it once would need its own result.
            if any(each.op in behind for each in op.inputs):
                return False
        elif any(each.op in behind or each.op in region.ops for each in op.inputs):
            behind.add(op)
    taken = (each for op in model if op in region.ops for each in op.inputs)
    region.taken = [*dict.fromkeys(each for each in taken if _crosses(each, region))]
    users = (each for op in model if op not in region.ops for each in op.inputs)
    region.given = [*dict.fromkeys(each for each in (*users, *wanted) if each.op in region.ops)]
    return 1 <= len(region.taken) <= MOST_CROSSING and 1 <= len(region.given) <= MOST_CROSSING


def _crosses(tensor: Tensor, region: Region) -> bool:
    return tensor.kind not in (CONST, SETTING, VARIABLE) and tensor.op not in region.ops


def _owners(regions: list[Region], model: Sequence[Op]) -> list[Region]:
    """The regions whose variables nothing else in the model reads, but for calls of the very same block."""
    readers: dict[str, set[Op]] = {}
    for op in model:
        for name in variables_of(op):
            readers.setdefault(name, set()).add(op)
    calls: dict[frozenset[str], list[Region]] = {}
    for region in regions:
        calls.setdefault(region.variables, []).append(region)
    kept = []
    for region in regions:
        same = [each for each in calls[region.variables] if kinds_of(each) == kinds_of(region)]
        own = frozenset().union(*(each.ops for each in same))
        # A weight that another part of the model reads too (tied embeddings) cannot hide in a block.
        if all(readers[name] <= own for name in region.variables):
            kept.append(region)
    return kept


def kinds_of(region: Region) -> list[str]:
    """Returns the types of a region's ops, in order."""
    return [op.kind for op in sorted(region.ops, key=lambda op: op.place)]


def _tree(regions: list[Region]) -> list[Region]:
    """The outermost regions, with the others as their children; of one that is all of its parent only the inner stays."""
    roots: list[Region] = []
    placed: list[Region] = []
    for region in sorted(regions, key=lambda region: -len(region.ops)):
        around = [each for each in placed if region.ops < each.ops]
        parent = min(around, key=lambda each: len(each.ops), default=None)
        (parent.children if parent is not None else roots).append(region)
        placed.append(region)
    return [each for root in roots for each in _thinned(root)]


def _thinned(region: Region) -> list[Region]:
    """A region, or those inside where it is no more than one of them with something around it."""
    region.children = [each for child in region.children for each in _thinned(child)]
    if len(region.children) == 1 and _weighted(region.ops) == _weighted(region.children[0].ops):
        region.frame, region.scope = (
            region.frame or region.children[0].frame,
            region.scope or region.children[0].scope,
        )
        region.children = region.children[0].children
    return [region]


def _acyclic(regions: list[Region], model: Sequence[Op]) -> list[Region]:
    """Leaves out regions that could only be called one in the middle of another, or that would change the order of draws."""
    for region in regions:
        inside = [op for op in model if op in region.ops]
        region.children = _acyclic(region.children, inside)
    kept = regions
    while kept and not _in_order(contracted(model, kept), model):
        # The last ones first: the largest regions, in front, say most about the model.
        kept = kept[:-1]
    return kept


def _in_order(items: Sequence[Op], model: Sequence[Op]) -> bool:
    ops = [op for item in items for op in _ops_in(item)]
    # Recorded draws are handed out in the order in which the script made them: two exchanged masks are a wrong port.
    places = [op.place for op in ops if op.kind in DRAWING_KINDS or op.kind == LOOP]
    return len(ops) == len(model) and places == sorted(places)


def _ops_in(item: Op) -> list[Op]:
    if item.kind != CALLED_BLOCK:
        return [item]
    return sorted(item.attributes["region"].ops, key=lambda op: op.place)


def contracted(ops: Sequence[Op], regions: Sequence[Region]) -> list[Op]:
    """Returns ops with one op of kind `CALLED_BLOCK` for each region, each after those that it takes from.

    Where that cannot be, some are missing.
    """
    item_of: dict[Op, Op] = {op: op for op in ops}
    for region in regions:
        first = min(region.ops, key=lambda op: op.place)
        block = Op(CALLED_BLOCK, first.name, region.taken, {"region": region}, [()], first.dtypes, first.place)
        item_of.update(dict.fromkeys(region.ops, block))
    items = [*dict.fromkeys(item_of[op] for op in ops)]
    needed = {item: {item_of[each.op] for each in item.inputs if each.op in item_of} for item in items}
    users: dict[Op, list[Op]] = {item: [] for item in items}
    for item in items:
        for each in needed[item]:
            users[each].append(item)
    ready = [(item.place, number, item) for number, item in enumerate(items) if not needed[item]]
    heapq.heapify(ready)
    numbers = {item: number for number, item in enumerate(items)}
    found = []
    while ready:
        *_, item = heapq.heappop(ready)
        found.append(item)
        for user in users[item]:
            needed[user].discard(item)
            if not needed[user]:
                heapq.heappush(ready, (user.place, numbers[user], user))
    return found
