"""The parameters and layers of a generated module: what each is called, how it is made, and what it is mapped to."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from parity.port.source.code import ATOM, Code, array, identifier
from parity.port.source.plain import Plain
from parity.port.tower.regions import Frame
from parity.trace.arrays import Array

if TYPE_CHECKING:
    from parity.port.source.blocks import Block
    from parity.port.tower.ops import Op

# Attributes of every nn.Module, as far as a scope of a script may be called so.
OF_EVERY_MODULE = (
    "training forward train eval register_buffer parameters buffers modules children apply type to half float double cuda "
    "cpu share_memory state_dict zero_grad dump_patches compile bfloat16 extra_repr named_parameters requires_grad_"
)

BUFFERS = ("stat", "state")  # kinds of variables
FREEZE = ".requires_grad_(False)"
MOVING = "running_"  # what torch's norms call their statistics begins with


class Held(NamedTuple):
    """Where a module holds a variable of the script.

    Fields:
      path: of the layer in the module, with a dot or a bracket in front; "" of the module's own.
      own: the name of the parameter or buffer.
      transform: from the script's layout.
    """

    path: str
    own: str
    transform: str

    def code(self, owner: str) -> str:
        """Returns the expression that reads it."""
        if "[" in self.path:  # what is taken out of a Sequential has no type that says what it holds
            return f'{owner}.get_parameter("{self.name}")'
        return f"{owner}{self.path}.{self.own}"

    @property
    def name(self) -> str:
        """As `named_parameters` has it."""
        return re.sub(r"\[(\d+)\]", r".\1", f"{self.path}.{self.own}")[1:]


@dataclass
class Layer:
    """A layer of the module.

    Attributes:
      attribute: its name in the module.
      made: the expression that makes it.
      mapped: by name of the script's variable, the name of the layer's own parameter or buffer and the transform.
      frames: the lines of the script that it is made in, outermost first.
      general: other expressions that make it, which layers that differ in their numbers only have in common.
    """

    attribute: str
    made: str
    mapped: dict[str, tuple[str, str]]
    frames: Sequence[Frame] = ()
    general: Sequence[str] = ()


@dataclass
class Parameters:
    """What a module holds.

    Args:
      shapes: by name of a variable of the script, its shape.
      kinds: by name, "var" or "stat"; "state" of what is neither, and a buffer too.

    Attributes:
      layers: by what tells one layer from another.
      plain_ones: by name of the script's variable, the attribute of a parameter in the script's own layout.
      constants: by attribute, an array that the module keeps.
      settings: by name of the script's variable, the attribute that holds its number, and the number.
      blocks: by the script's variables in it, a block.
      order: layers and blocks, in the order in which they are called.
      planned: what layers, by their first variable, and blocks, by their region, are to be called.
      own: the variables that there are, of all in `shapes`; empty for all.
      is_whole: whether all that it will hold is known.
      no_blocks: variables of what is to be no block.
      in_plain_torch: how what is written in plain torch differs; None where like_tf stands where it has to.
    """

    shapes: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, str]
    layers: dict[tuple[Any, ...], Layer] = field(default_factory=dict)
    plain_ones: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    blocks: "dict[frozenset[str], Block]" = field(default_factory=dict)
    planned: dict[object, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    is_whole: bool = False
    no_blocks: frozenset[frozenset[str]] = frozenset()
    in_plain_torch: Plain | None = None
    order: "list[Layer | Block]" = field(default_factory=list)
    _taken: set[str] = field(default_factory=lambda: set(OF_EVERY_MODULE.split()))

    def __post_init__(self) -> None:
        self._root = common_scope(self.own or self.shapes)

    def hold(self, read: "Iterable[Op]") -> None:
        """Takes in variables that are no weights and no statistics, as a count is, by the ops that stand for them."""
        new = [op for op in read if op.name not in self.shapes]
        self.shapes = {**self.shapes, **{op.name: op.output().shape for op in new}}
        self.kinds = {**self.kinds, **dict.fromkeys((op.name for op in new), "state")}

    def inside(self, variables: frozenset[str]) -> "Parameters":
        """Returns what a block holds that has some of the variables."""
        return Parameters(self.shapes, self.kinds, own=variables, in_plain_torch=self.in_plain_torch)

    def short(self, variable: str) -> str:
        """Returns the name of a variable without the scope that all of them have."""
        return variable.removeprefix(self._root)

    def weights_in(self, scope: str) -> int:
        """Returns how many weights with more than one axis a scope has."""
        return sum(name.rpartition("/")[0] == scope and len(shape) > 1 for name, shape in self.shapes.items())

    def layer(
        self,
        key: tuple[Any, ...],
        scope: str,
        made: str,
        mapped: dict[str, tuple[str, str]],
        frames: Sequence[Frame] = (),
        general: Sequence[str] = (),
    ) -> Layer:
        """Returns the layer with a key, made where there is none yet.

        Args:
          key: what tells it from others.
          scope: what it may be called: the scope of its variables.
          made: the expression that makes it.
          mapped: as of `Layer`.
          frames: as of `Layer`.
          general: as of `Layer`.
        """
        if key not in self.layers:
            # Names were planned for all layers at once, before any was written, so that conv1, conv2 are numbered in
            # order.
            planned = next((self.planned[name] for name in mapped if name in self.planned), "")
            if self._is_frozen(made, mapped):
                made, general = made + FREEZE, [each + FREEZE for each in general]
            self.layers[key] = Layer(planned or self.name(scope), made, mapped, frames, general)
            self.order.append(self.layers[key])
        return self.layers[key]

    def _is_frozen(self, made: str, mapped: Mapping[str, tuple[str, str]]) -> bool:
        weights = [name for name, (own, _) in mapped.items() if not _is_buffer(made, own)]
        return bool(weights) and all(self.kinds.get(name) in BUFFERS for name in weights)

    def is_buffer(self, variable: str) -> bool:
        """Returns whether the module holds a variable as a buffer; as a layer's weight it is a parameter that is frozen."""
        layer = self.layer_of(variable)
        return self.kinds.get(variable) in BUFFERS and (
            layer is None or _is_buffer(layer.made, layer.mapped[variable][0])
        )

    def scope_of(self, variable: str) -> str:
        """Returns what the layer of a variable may be called: its scope, or itself where a scope holds several weights."""
        scope = variable.rpartition("/")[0]
        return variable if self.weights_in(scope) > 1 or not scope else scope

    def name(self, scope: str, whole: bool = False) -> str:
        """Returns an attribute that is free, for a scope or variable of the script.

        Args:
          scope: of it.
          whole: whether it is the attribute itself, as it is wished.
        """
        wished = scope if whole else identifier(self.short(scope), "weights")
        name, count = wished, 2
        while name in self._taken:
            name, count = f"{wished}_{count}", count + 1
        self._taken.add(name)
        return name

    def held(self, variable: str) -> Held | None:
        """Returns where a variable is held, None where it is not yet."""
        for layer in self.layers.values():
            if variable in layer.mapped:
                return Held(f".{layer.attribute}", *layer.mapped[variable])
        for block in self.blocks.values():
            if variable in block.parameters.own:
                inside = block.parameters.held(variable)
                return block.of(inside) if inside is not None else None
        return Held("", self.plain_ones[variable], "identity") if variable in self.plain_ones else None

    def layer_of(self, variable: str) -> Layer | None:
        """Returns the layer, of the module or of a block, that has a variable; None where none does."""
        for layer in self.layers.values():
            if variable in layer.mapped:
                return layer
        inside = (each.parameters for each in self.blocks.values() if variable in each.parameters.own)
        return next((each.layer_of(variable) for each in inside), None)

    def plain(self, variable: str, owner: str) -> Code:
        """Returns an expression for a variable in the script's layout."""
        held = self.held(variable)
        if held is None:
            self.plain_ones[variable] = self.name(variable)
            return Code(f"{owner}.{self.plain_ones[variable]}")
        return Code(held.code(owner) + BACK.get(held.transform, ""), ATOM)

    def whole(self, variable: str, owner: str) -> Code:
        """Returns an expression for a variable in whatever layout the module has it."""
        held = self.held(variable)
        return Code(held.code(owner)) if held is not None else self.plain(variable, owner)

    def example(self, owner: str) -> str:
        """Returns an expression for some parameter, to make tensors like."""
        for layer in self.layers.values():
            for own, _ in layer.mapped.values():
                return f"{owner}.{layer.attribute}.{own}"
        return next((f"{owner}.{name}" for name in self.plain_ones.values()), f"next({owner}.parameters())")

    def constant(self, name: str, value: Array, owner: str) -> Code:
        """Returns an expression for an array of numbers that the script has."""
        # Each tower of a script may have made a table again; one buffer is enough.
        found = (each for each, own in self.constants.items() if _same(own, value))
        attribute = next(found, "") or self.name(name.rpartition("/")[2] or "constant")
        self.constants[attribute] = value
        # Integers and numbers that float32 has exactly stay as they are in every precision.
        if not _is_rounded(value):
            return Code(f"{owner}.{attribute}")
        return Code(f"{owner}.{attribute}.to({self.example(owner)}.dtype)")

    def setting(self, name: str, value: Code, owner: str) -> Code:
        """Returns an expression for a number that the script keeps in a variable and sets itself."""
        if name not in self.settings:
            self.settings[name] = self.name(name), value.text
        return Code(f"{owner}.{self.settings[name][0]}")

    def mapping(self) -> dict[str, tuple[str, str]]:
        """Returns by name of the script's variable the path of the module's and the transform."""
        found = {name: (attribute, "identity") for name, attribute in self.plain_ones.items()}
        for layer in self.layers.values():
            for name, (own, transform) in layer.mapped.items():
                found[name] = (f"{layer.attribute}.{own}", transform)
        for block in self.blocks.values():
            for name in block.parameters.mapping():
                held = self.held(name)
                if held is not None:
                    found[name] = (held.name, held.transform)
        return found

    def statements(self) -> list[str]:
        """Returns the statements of the constructor that make what is no layer and no block."""
        found = []
        for attribute, number in self.settings.values():
            found.append(f"self.{attribute} = {number}  # in every recorded step: set it where the script does")
        for name, attribute in self.plain_ones.items():
            shape = ", ".join(map(str, self.shapes[name])) or "()"
            if self.kinds.get(name) in BUFFERS:
                found.append(f'self.register_buffer("{attribute}", torch.zeros({shape}))')
            else:
                found.append(f"self.{attribute} = nn.Parameter(torch.zeros({shape}))")
        for layer in self.layers.values():
            # Of a layer that trains what the script does not train; a layer that does not train says so itself.
            frozen = [own for name, (own, _) in layer.mapped.items() if self.kinds.get(name) in BUFFERS]
            if not layer.made.endswith(FREEZE):
                found += [f"self.{layer.attribute}.{own}{FREEZE}" for own in frozen if not _is_buffer(layer.made, own)]
        for attribute, value in self.constants.items():
            # In float32, which torch.tensor makes of numbers, a port in float64 would compute with others than the
            # script.
            numbers = array(value) + (", dtype=torch.float64" if _is_rounded(value) else "")
            found.append(f'self.register_buffer("{attribute}", torch.tensor({numbers}), persistent=False)')
        return found

    def buffers(self) -> list[str]:
        """Returns the attributes that are tensors and no parameters."""
        own = [attribute for name, attribute in self.plain_ones.items() if self.kinds.get(name) in BUFFERS]
        return [*own, *self.constants]


def _is_buffer(made: str, own: str) -> bool:
    # A gamma that is fixed is a buffer of like_tf's norms.
    return own.startswith(MOVING) or (own == "weight" and '"fixed"' in made)


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and bool((one == other).all())


def _is_rounded(value: Array) -> bool:
    """Whether float32 has not exactly these numbers."""
    return value.dtype.kind == "f" and bool((value.astype(np.float32) != value).any())


BACK = {
    "transpose": ".T",
    "hwio_to_oihw": ".permute(2, 3, 1, 0)",
    "hwoi_to_iohw": ".permute(2, 3, 1, 0)",
}


def common_scope(names: Iterable[str]) -> str:
    """Returns the scope that all of some names begin with, with its slash; "" where there is none."""
    split = [name.split("/")[:-1] for name in names]
    found: list[str] = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) != 1:
            break
        found.append(parts[0])
    return "/".join(found) + "/" if found else ""
