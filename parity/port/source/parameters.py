"""The parameters and layers of a generated module: what each is called, how it is made, and what it is mapped to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parity.port.source.code import ATOM, Code, array, identifier
from parity.trace.arrays import Array
from parity.trace.escape import one_line


@dataclass
class Layer:
    """A layer of the module.

    Attributes:
      attribute: its name in the module.
      made: the expression that makes it.
      mapped: by name of the script's variable, the name of the layer's own parameter or buffer and the transform.
      line: where the script makes it, "" where that is not known.
    """

    attribute: str
    made: str
    mapped: dict[str, tuple[str, str]]
    line: str = ""


@dataclass
class Parameters:
    """What a module holds.

    Args:
      shapes: by name of a variable of the script, its shape.
      kinds: by name, "var" or "stat".

    Attributes:
      layers: by what tells one layer from another.
      plain_ones: by name of the script's variable, the attribute of a parameter in the script's own layout.
      constants: by attribute, an array that the module keeps.
      settings: by name of the script's variable, the attribute that holds its number, and the number.
    """

    shapes: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, str]
    layers: dict[tuple[Any, ...], Layer] = field(default_factory=dict)
    plain_ones: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=lambda: {"training", "forward", "train", "eval", "register_buffer"})

    def __post_init__(self) -> None:
        self._root = common_scope(self.shapes)

    def layer(
        self, key: tuple[Any, ...], scope: str, made: str, mapped: dict[str, tuple[str, str]], line: str
    ) -> Layer:
        """Returns the layer with a key, made where there is none yet.

        Args:
          key: what tells it from others.
          scope: what it may be called: the scope of its variables.
          made: the expression that makes it.
          mapped: as of `Layer`.
          line: of the script.
        """
        if key not in self.layers:
            self.layers[key] = Layer(self.name(scope), made, mapped, line)
        return self.layers[key]

    def scope_of(self, variable: str) -> str:
        """Returns what the layer of a variable may be called: its scope, or itself where a scope holds several weights."""
        scope = variable.rpartition("/")[0]
        weights = [name for name, shape in self.shapes.items() if name.rpartition("/")[0] == scope and len(shape) > 1]
        return variable if len(weights) > 1 or not scope else scope

    def name(self, scope: str) -> str:
        """Returns an attribute that is free, for a scope or variable of the script."""
        short = scope[len(self._root) :] if scope.startswith(self._root) else scope
        wished = identifier(short, "weights")
        name, count = wished, 2
        while name in self._taken:
            name, count = f"{wished}_{count}", count + 1
        self._taken.add(name)
        return name

    def plain(self, variable: str, owner: str) -> Code:
        """Returns an expression for a variable in the script's layout."""
        for layer in self.layers.values():
            if variable in layer.mapped:
                own, transform = layer.mapped[variable]
                return Code(f"{owner}.{layer.attribute}.{own}{BACK.get(transform, '')}", ATOM)
        if variable not in self.plain_ones:
            self.plain_ones[variable] = self.name(variable)
        return Code(f"{owner}.{self.plain_ones[variable]}")

    def whole(self, variable: str, owner: str) -> Code:
        """Returns an expression for a variable in whatever layout the module has it."""
        for layer in self.layers.values():
            if variable in layer.mapped:
                return Code(f"{owner}.{layer.attribute}.{layer.mapped[variable][0]}")
        return self.plain(variable, owner)

    def example(self, owner: str) -> str:
        """Returns an expression for some parameter, to make tensors like."""
        for layer in self.layers.values():
            for own, _ in layer.mapped.values():
                return f"{owner}.{layer.attribute}.{own}"
        return next((f"{owner}.{name}" for name in self.plain_ones.values()), f"next({owner}.parameters())")

    def constant(self, name: str, value: Array, owner: str) -> Code:
        """Returns an expression for an array of numbers that the script has."""
        for attribute, own in self.constants.items():
            if own.shape == value.shape and own.dtype == value.dtype and (own == value).all():
                return Code(f"{owner}.{attribute}")
        attribute = self.name(name.rpartition("/")[2] or "constant")
        self.constants[attribute] = value
        return Code(f"{owner}.{attribute}")

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
        return found

    def statements(self) -> list[str]:
        """Returns the statements of the constructor."""
        found = []
        for layer in self.layers.values():
            comment = f"  # {one_line(layer.line)}" if layer.line else ""
            found.append(f"self.{layer.attribute} = {layer.made}{comment}")
        for attribute, number in self.settings.values():
            found.append(f"self.{attribute} = {number}  # in every recorded step: set it where the script does")
        for name, attribute in self.plain_ones.items():
            shape = ", ".join(map(str, self.shapes[name])) or "()"
            if self.kinds.get(name) == "stat":
                found.append(f'self.register_buffer("{attribute}", torch.zeros({shape}))')
            else:
                found.append(f"self.{attribute} = nn.Parameter(torch.zeros({shape}))")
        for attribute, value in self.constants.items():
            found.append(f'self.register_buffer("{attribute}", torch.tensor({array(value)}), persistent=False)')
        return found


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
