"""Blocks of a module: regions of the model that become classes, each called as a layer is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from parity.port.source.citations import common
from parity.port.source.code import Code, call
from parity.port.source.layer_names import name_layers
from parity.port.source.ops.layers import is_channels_first
from parity.port.source.parameters import Held, Parameters
from parity.port.source.writer import Writer, writes
from parity.port.tower.layers import BATCH_NORM, CONVOLUTION_LAYERS, LAYERS, TRANSPOSED_CONVOLUTION
from parity.port.tower.ops import Op, Tensor
from parity.port.tower.regions import CALLED_BLOCK, DRAWING_KINDS, Frame, Region, contracted

IMAGE_OPS = (*CONVOLUTION_LAYERS.values(), TRANSPOSED_CONVOLUTION, BATCH_NORM, "MaxPool", "AvgPool", "LRN")
ARGUMENTS = ("x", "y", "z", "w")  # of a block's forward


class BlocksDiffer(Exception):
    """Two calls of what reads the same variables are not the same: it can be no block.

    Args:
      variables: of the script, that both read.
    """

    def __init__(self, variables: frozenset[str]) -> None:
        super().__init__(variables)
        self.variables = variables


@dataclass(eq=False)
class Block:
    """A block of a module.

    Attributes:
      attribute: its name in the module that holds it.
      region: what it computes.
      parameters: what it holds.
      arguments: of its forward.
      body: statements of its forward.
      chained: whether it only calls the blocks inside, one on what the one before gives.
      frames: the lines of the script that all of it is made in, outermost first.
    """

    attribute: str
    region: Region
    parameters: Parameters
    arguments: list[str]
    body: list[str] = field(default_factory=list)
    chained: bool = False
    frames: Sequence[Frame] = ()

    def of(self, held: Held) -> Held:
        """Returns where the module that holds the block has what the block has."""
        path = held.path
        if self.chained:
            first, separator, rest = path[1:].partition(".")
            path = f"[{list(self.attributes()).index(first)}]{separator}{rest}"
        return held._replace(path=f".{self.attribute}{path}")

    def attributes(self) -> Iterator[str]:
        """Yields the attributes of the blocks inside, in order."""
        yield from (each.attribute for each in self.parameters.blocks.values())

    @property
    def cited(self) -> Frame | None:
        """The function of the script that it is a call of."""
        return self.region.frame


@writes(CALLED_BLOCK)
def _block(writer: Writer, op: Op) -> Code:
    region: Region = op.attributes["region"]
    block = writer.parameters.blocks.get(region.variables)
    first = [_is_first(writer, tensor, region) for tensor in region.taken]
    given = [writer.code(tensor, flag) for tensor, flag in zip(region.taken, first, strict=True)]
    written = _written(writer, region, [tensor for tensor, flag in zip(region.taken, first, strict=True) if flag])
    if block is None:
        block = writer.parameters.blocks[region.variables] = written
        writer.parameters.order.append(block)
    # Weights that are shared by two calls that compute differently: the scope is written flat, and once more from the
    # start.
    elif (block.arguments, block.body) != (written.arguments, written.body):
        raise BlocksDiffer(region.variables)
    writer.calls = True
    return call(f"{writer.owner}.{block.attribute}", *given)


def _is_first(writer: Writer, tensor: Tensor, region: Region) -> bool:
    """Whether a block is given a tensor with its channels first: where it has them there, or an op of images takes it."""
    # Sequences and vectors have no channels to turn.
    if tensor in writer.channels_first or len(tensor.shape) < 4:
        return tensor in writer.channels_first
    users = [op for op in region.ops if tensor in op.inputs]
    return any(op.kind in IMAGE_OPS and not is_channels_first(op) for op in users)


def _written(writer: Writer, region: Region, first: list[Tensor]) -> Block:
    held = writer.parameters
    inside = sorted(region.ops, key=lambda op: op.place)
    known = held.blocks.get(region.variables)
    attribute = known.attribute if known is not None else held.planned.get(region) or held.name("block")
    parameters = known.parameters if known is not None else held.inside(region.variables)
    block = Block(attribute, region, parameters, list(ARGUMENTS[: len(region.taken)]))
    block.frames = common(writer.frames(op) for op in inside if op.kind in LAYERS)
    items = contracted(inside, region.children)
    name_layers(items, block.parameters, writer.frames)
    # A writer of its own: names inside a block are nobody else's.
    names = dict(zip(region.taken, block.arguments, strict=True))
    inner = Writer(block.parameters, "self", names, writer.suggested, writer.lines, writer.frames)
    inner.refused, inner.channels_first = writer.refused, set(first)
    found = inner.write(items, region.given, as_they_are=True)
    block.body = [*inner.statements, f"return {', '.join(each.text for each in found)}"]
    # Then it is an nn.Sequential, and needs no class.
    block.chained = len(region.taken) == 1 and len(items) > 1 and _is_chain(items, region)
    writer.channels_first.update(set(region.given) & inner.channels_first)
    writer.draws = writer.draws or any(op.kind in DRAWING_KINDS for op in inside)
    return block


def _is_chain(items: list[Op], region: Region) -> bool:
    """Whether each item is a block and takes only what the one before gives."""
    taken = region.taken
    for item in items:
        if item.kind != CALLED_BLOCK or item.inputs != taken:
            return False
        taken = item.attributes["region"].given
    return taken == region.given and len(taken) == 1
