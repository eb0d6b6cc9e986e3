"""Turns blocks into classes: those that differ in numbers only become one, with these numbers as arguments."""

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import NamedTuple

from parity.port.source.blocks import Block
from parity.port.source.citations import Citations, without_room
from parity.port.source.parameters import Layer, Parameters
from parity.port.tower.regions import Frame

# What the arguments of a layer are called, in order.
ARGUMENT_ROLES = {
    "Conv": ("in_channels", "out_channels", "kernel_size"),
    "Linear": ("in_features", "out_features"),
    "BatchNorm": ("num_features",),
    "Embedding": ("num_embeddings", "embedding_dim"),
    "max_pool": ("", "kernel_size", "stride"),
    "avg_pool": ("", "kernel_size", "stride"),
    "dropout": ("", "rate"),
}
FEWEST_REPEATED = 3  # blocks in a row that are made in a loop: two are as short one by one
OF_WINDOWS = {"kernel_size", "stride", "padding", "dilation"}  # follow from no width, whatever the numbers are
CONVOLUTION = re.compile(r"self\.\w+ = (nn|like_tf)\.Conv")
UNSAID = re.compile(r", (stride=1|padding=0)(?=[,)])")  # what a convolution has without a word
WIDTHS = (
    "in_channels",
    "out_channels",
    "in_features",
    "out_features",
    "num_features",
    "num_embeddings",
    "embedding_dim",
)


class Literal(NamedTuple):
    """A number in a statement.

    Fields:
      begin, end: where it stands.
      text: of it.
      role: what an argument would be called that stands there.
    """

    begin: int
    end: int
    text: str
    role: str


@dataclass
class Class:
    """A class of the port.

    Attributes:
      name: of it.
      frame: the first line of the function of the script that it is, None where that is not known.
      arguments: of its constructor, with their types.
      made: statements of its constructor.
      taken: arguments of its forward.
      body: statements of its forward.
      gives: number of tensors that its forward returns.
    """

    name: str
    frame: Frame | None
    arguments: list[tuple[str, str]]
    made: list[str]
    taken: list[str]
    body: list[str]
    gives: int


@dataclass
class Classes:
    """The classes of a module's blocks.

    Attributes:
      found: in an order in which each comes after those that it uses.
      made: by block, the expression that makes it.
      named: the functions of the script that their comments name, by file and name.
    """

    found: list[Class] = field(default_factory=list)
    made: dict[Block, str] = field(default_factory=dict)
    named: set[tuple[str, str]] = field(default_factory=set)

    def add(self, parameters: Parameters) -> None:
        """Adds the classes of what a module holds."""
        # From the innermost outwards: what a block holds has its class, and its expression, before the block is
        # compared with others.
        levels: dict[int, list[Block]] = {}
        for block in _blocks(parameters):
            levels.setdefault(_height(block), []).append(block)
        for _, blocks in sorted(levels.items()):
            groups: list[list[Block]] = []
            for block in blocks:
                if block.chained:
                    inside = [self.made[each] for each in block.parameters.blocks.values()]
                    self.made[block] = f"nn.Sequential({', '.join(_runs(inside))})"
                else:
                    same = next((group for group in groups if _in_common([*map(self._forms, (*group, block))])), None)
                    groups.append([block]) if same is None else same.append(block)
            for name, group in zip(self._names(groups), groups, strict=True):
                self.found.append(self._class(name, group))

    def statements(self, parameters: Parameters, citations: Citations | None = None) -> list[str]:
        """Returns the statements that make what a module holds.

        Args:
          parameters: what it holds.
          citations: of the lines of the script; None for none.
        """
        found = []
        for each in parameters.order:
            made = each.made if isinstance(each, Layer) else self.made[each]
            statement = f"self.{each.attribute} = {made}"
            found.append(statement + (citations.of(each.frames, statement) if citations is not None else ""))
        return [*found, *parameters.statements()]

    def _statements(self, block: Block) -> list[str]:
        return [*self.statements(block.parameters), "", *block.body]

    def _forms(self, block: Block) -> list[list[str]]:
        """The statements of a block, each in all forms that it may have; an empty one ends those of the constructor."""
        found = [[each] for each in self._statements(block)]
        for number, each in enumerate(block.parameters.order):
            if isinstance(each, Layer):
                found[number] += [f"self.{each.attribute} = {general}" for general in each.general]
        return found

    def _class(self, name: str, group: list[Block]) -> Class:
        written = _in_common([self._forms(block) for block in group])
        literals = [[[*_literals(line, self.found)] for line in each] for each in written]
        columns = {
            (line, place): tuple(each[line][place].text for each in literals)
            for line, row in enumerate(literals[0])
            for place in range(len(row))
        }
        roles = {key: literals[0][key[0]][key[1]].role for key in columns}
        arguments = _arguments({key: column for key, column in columns.items() if len(set(column)) > 1}, roles)
        for number, block in enumerate(group):
            given = [values[number] if _is_width(own) else f"{own}={values[number]}" for own, values in arguments.named]
            self.made[block] = f"{name}({', '.join(given)})"
        middle = written[0].index("")
        lines = [
            _filled(line, literals[0][number], arguments.of_line(number, len(literals[0][number]), number > middle))
            for number, line in enumerate(written[0])
        ]
        convolutions = [number for number in range(middle) if CONVOLUTION.match(lines[number])]
        for number in convolutions:
            lines[number] = UNSAID.sub("", lines[number])
        return self._put(name, group, (lines[:middle], lines[middle + 1 :]), arguments)

    def _put(self, name: str, group: list[Block], lines: tuple[list[str], list[str]], arguments: "Arguments") -> Class:
        made, body = lines
        kept = [f"self.{own} = {own}" for own, _ in arguments.named if any(f"self.{own}" in line for line in body)]
        comments = [{_comment(line) for line in same} for same in zip(*self._cited(group), strict=True)]
        pairs = zip(made, comments, strict=True)
        made = [without_room(line + (found.pop() if len(found) == 1 else "")) for line, found in pairs]
        types = [(own, "int" if all(each.isdigit() for each in values) else "float") for own, values in arguments.named]
        first = group[0]
        return Class(name, first.cited, types, [*kept, *made], first.arguments, body, len(first.region.given))

    def _cited(self, group: list[Block]) -> list[list[str]]:
        """The statements of each block of a group, with what they have in common cited in the same way."""
        citations = [Citations(each.cited, {*self.named}) for each in group]
        found = [self.statements(block.parameters, citations=own) for block, own in zip(group, citations, strict=True)]
        self.named |= citations[0].named
        return found

    def _names(self, groups: list[list[Block]]) -> list[str]:
        """A name for each group of blocks: of the function, of the scope, of what it has and others of that name lack."""
        bases = [_base(group[0]) for group in groups]
        used = {"Model", *(each.name for each in self.found)}
        found: dict[int, str] = {}
        texts = [" ".join(self._statements(group[0])) for group in groups]
        order = [(len(group[0].parameters.order), "stride=" in text) for group, text in zip(groups, texts, strict=True)]
        for number in sorted(range(len(groups)), key=order.__getitem__):
            own = [each.attribute for each in groups[number][0].parameters.order]
            others = [
                [each.attribute for each in groups[other][0].parameters.order]
                for other in found
                if bases[other] == bases[number]
            ]
            name = base = bases[number]
            extra = [each for each in own if others and all(each not in attributes for attributes in others)]
            if name in used and extra:
                name = f"{base}With{camel(extra[0])}"
            if name in used and "stride=" in texts[number]:
                name = f"Strided{base}"
            if name in used:
                own_name = camel(groups[number][0].attribute)
                name = own_name if base in own_name else f"{own_name}{base}"
            # The last resort, of classes that nothing but their statements tells apart.
            while name in used:
                name += "Again"
            used.add(name)
            found[number] = name
        return [found[number] for number in range(len(groups))]


def _blocks(parameters: Parameters) -> Iterator[Block]:
    for block in parameters.blocks.values():
        yield from _blocks(block.parameters)
        yield block


def _height(block: Block) -> int:
    return 1 + max((_height(each) for each in block.parameters.blocks.values()), default=0)


def _base(block: Block) -> str:
    """What the class of a block is called, after its function or its scope."""
    frame = block.cited
    own = frame.function if frame is not None else ""
    # Functions of every network: the scope says more.
    if not own or own.startswith("__") or own in ("build", "call", "forward", "inference", "main"):
        own = re.sub(r"(_\d+)+$", "", block.attribute)
        own = own if re.search(r"_v\d+$", own) else re.sub(r"[\d_]+$", "", own) or "block"
    return camel(own) or "Block"


def camel(name: str) -> str:
    """Returns a name as classes have it."""
    return "".join(each[:1].upper() + each[1:] for each in re.split(r"[^A-Za-z0-9]+", name) if each).lstrip(
        "0123456789"
    )


def _in_common(forms: Sequence[Sequence[Sequence[str]]]) -> list[list[str]]:
    """The statements of each of several blocks, in forms that differ in their numbers only; none where they differ more.

    Blocks that move in other strides are one class where their layers are made by a more general expression: each in its
    plainest form that all of them have.
    """
    if len({len(each) for each in forms}) > 1:
        return []
    chosen = []
    for lines in zip(*forms, strict=True):
        known = [{_skeleton(form): form for form in reversed(each)} for each in lines]
        skeleton = next((_skeleton(form) for form in lines[0] if all(_skeleton(form) in each for each in known)), None)
        if skeleton is None:
            return []
        chosen.append([each[skeleton] for each in known])
    return [[*each] for each in zip(*chosen, strict=True)]


@cache
def _skeleton(line: str) -> str:
    """A statement without its numbers."""
    return _filled(line, [*_literals(line, [])], None)


def _runs(made: Sequence[str]) -> Iterator[str]:
    """Yields expressions; those that are the same several times in a row as one, in a loop."""
    for expression, same in groupby(made):
        count = len([*same])
        if count < FEWEST_REPEATED:
            yield from [expression] * count
        else:
            yield f"*({expression} for _ in range({count}))"


def _filled(line: str, literals: Sequence[Literal], expressions: Sequence[str | None] | None) -> str:
    """A line with expressions in the place of some of its numbers, or without numbers."""
    for number in range(len(literals) - 1, -1, -1):
        expression = "#" if expressions is None else expressions[number]
        if expression is not None:
            # A sum in the place of a factor needs brackets; one that stands between commas does not.
            around = line[: literals[number].begin].rstrip()[-1:] + line[literals[number].end :].lstrip()[:1]
            if " " in expression and re.search(r"[^(\[,)\]=]", around):  # an operand
                expression = f"({expression})"
            line = line[: literals[number].begin] + expression + line[literals[number].end :]
    return line


def _literals(line: str, classes: Sequence[Class]) -> Iterator[Literal]:
    """Yields the numbers of a statement."""
    stack: list[tuple[str, int]] = []
    before, keyword = "", ""
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        if token.string in ("(", "["):
            stack.append((before if token.string == "(" else "", 0))
        elif token.string in (")", "]") and stack:
            stack.pop()
        elif token.string == "," and stack:
            stack[-1] = (stack[-1][0], stack[-1][1] + 1)
        if token.type == tokenize.NUMBER:
            callee, place = stack[-1] if stack else ("", 0)
            role = keyword if before == "=" and stack else _role(callee, place, classes)
            yield Literal(token.start[1], token.end[1], token.string, role)
        if token.type == tokenize.NAME:
            keyword = token.string
        before = token.string


def _role(callee: str, place: int, classes: Sequence[Class]) -> str:
    own = next((each for each in classes if each.name == callee), None)
    if own is not None and place < len(own.arguments):
        return own.arguments[place][0]
    for name, roles in ARGUMENT_ROLES.items():
        if callee.startswith(name) and place < len(roles):
            return roles[place]
    return {"pad": "padding", "Dropout": "rate"}.get(callee, "size")


class Arguments(NamedTuple):
    """The arguments of a class.

    Fields:
      named: each with its value for each instance.
      expressions: by line and place of a number, what stands there instead.
    """

    named: list[tuple[str, tuple[str, ...]]]
    expressions: dict[tuple[int, int], str]

    def of_line(self, line: int, count: int, is_kept: bool) -> list[str | None]:
        """Returns what stands in the place of each number of a line; `is_kept` says that the arguments are attributes."""
        found = [self.expressions.get((line, place)) for place in range(count)]
        return [_kept(each) if each is not None and is_kept else each for each in found]


def _kept(expression: str) -> str:
    """An expression in attributes of the module."""
    return re.sub(r"[A-Za-z_]\w*", lambda name: f"self.{name[0]}", expression)


Key = tuple[int, int]


def _arguments(columns: dict[Key, tuple[str, ...]], roles: dict[Key, str]) -> Arguments:
    """Names what differs: what differs in the same way is one argument, and what follows from others is none."""
    by_values: dict[tuple[str, ...], list[str]] = {}
    for key, column in columns.items():
        by_values.setdefault(column, []).append(roles[key])
    widths = [(column, roles[key]) for key, column in columns.items() if roles[key] in WIDTHS]
    before = next((column for column, role in widths if role.startswith("in_")), None)
    after = next((column for column, role in reversed(widths) if role.startswith("out_")), None)
    named: dict[str, tuple[str, ...]] = {}
    names: dict[tuple[str, ...], str] = {}
    # The widths that go in and out are named first: the others are told as their multiples where they are.
    ordered = sorted(by_values, key=lambda column: (column != before, column != after))
    for column in ordered:
        of_widths = column not in (before, after) and not set(by_values[column]) <= OF_WINDOWS
        found = _derived(column, named) if of_widths else ""
        if not found:
            found = _free(_wished(column, by_values[column], before, after), named)
            named[found] = column
        names[column] = found
    return Arguments([*named.items()], {key: names[column] for key, column in columns.items()})


def _wished(
    column: tuple[str, ...], roles: list[str], before: tuple[str, ...] | None, after: tuple[str, ...] | None
) -> str:
    of = "features" if all(role.endswith("features") for role in roles) and "num_features" not in roles else "channels"
    if column == before == after:
        return of
    if column in (before, after):
        return f"{'in' if column == before else 'out'}_{of}"
    own = next((role for role in roles if role not in WIDTHS), "width")
    return own if own.isidentifier() else "size"


def _is_width(name: str) -> bool:
    return name.endswith(("channels", "features"))


def _free(wished: str, named: dict[str, tuple[str, ...]]) -> str:
    name, count = wished, 2
    while name in named:
        name, count = f"{wished}{count}", count + 1
    return name


def _derived(column: tuple[str, ...], named: dict[str, tuple[str, ...]]) -> str:
    """An expression in the arguments that are named so far, "" where there is none."""
    if not all(each.isdigit() for values in (column, *named.values()) for each in values):
        return ""
    own = [int(each) for each in column]
    known = {name: [int(each) for each in values] for name, values in named.items() if _is_width(name)}
    for name, values in known.items():
        # Bottlenecks (4), gates of cells (2, 4), attention's queries, keys and values (3).
        for factor in (2, 3, 4, 8):
            if own == [factor * each for each in values]:
                return f"{factor} * {name}"
            if [factor * each for each in own] == values:
                return f"{name} // {factor}"
    for first, more in known.items():
        for second, fewer in known.items():
            differences = [a - b for a, b in zip(more, fewer, strict=True)]
            if own == differences:
                return f"{first} - {second}"
            if [2 * each for each in own] == differences:
                return f"({first} - {second}) // 2"
    return ""


def _comment(line: str) -> str:
    return "".join(line.rpartition("  # ")[1:]) if "  # " in line else ""
