"""One module: its functions and classes, what its names stand for, and what is assigned to them."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from parity.scan.model.names import canonical, chain

# What has no place is shared by many nodes.
SHARED_NODES = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


@dataclass(eq=False)
class Function:
    """A function, a method, or the statements of a module or class outside of any.

    Attributes:
      name: as it is defined; "" of a module.
      node: where it is defined.
      module: in which.
      owner: the class, or "".
      outer: what it is defined in, None of a module.
      nodes: everything in it, without what is in functions inside of it, in the order of the source.
      assigned: by name ("x", "self.x") what is assigned to it, in order.
    """

    name: str
    node: ast.AST
    module: "Module"
    owner: str = ""
    outer: "Function | None" = None
    nodes: list[ast.AST] = field(default_factory=list)
    assigned: "dict[str, list[Assigned]]" = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        """Names of what it takes by position."""
        return [each.arg for each in self.node.args.args] if isinstance(self.node, ast.FunctionDef) else []

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements."""
        return self.node.body if isinstance(self.node, ast.FunctionDef | ast.Module | ast.ClassDef) else []

    @cached_property
    def calls(self) -> list[ast.Call]:
        """The calls in it."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]


@dataclass(frozen=True, eq=False)
class Assigned:
    """What a name is given.

    Attributes:
      value: the expression; of a loop what it goes over.
      by: the statement, or the comprehension's clause.
      how: "=", "+=", "for", "with", or "append" for what a list is given.
      place: of the name in a tuple on the left, or None.
    """

    value: ast.expr
    by: ast.AST
    how: str = "="
    place: int | None = None


@dataclass(eq=False)
class Module:
    """One file.

    Attributes:
      path: as it is reported.
      name: dotted, from the folder that is scanned.
      tree: its syntax tree.
      lines: of its source.
      imports: by name, what it stands for.
      functions: all of it, the module's own statements first.
      parents: of each node what it is part of.
      children: of each node its parts.
      within: of each node the function that it is in.
      classes: by name, the names of their bases.
      broken: the first line that holds what is no Python, or 0.
    """

    path: Path
    name: str
    tree: ast.Module
    lines: Sequence[str]
    imports: dict[str, str] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    children: dict[ast.AST, list[ast.AST]] = field(default_factory=dict)
    within: dict[ast.AST, Function] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)
    broken: int = 0
    _resolved: dict[ast.AST, str] = field(default_factory=dict)
    _inside: dict[ast.AST, list[ast.AST]] = field(default_factory=dict)

    def resolved(self, node: ast.AST | None) -> str:
        """Returns the canonical dotted name of an expression, "" where it has none."""
        if node is None:
            return ""
        if node not in self._resolved:
            first, dot, rest = chain(node).partition(".")
            self._resolved[node] = canonical(self.imports.get(first, first) + dot + rest)
        return self._resolved[node]

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yields what a node is part of, the nearest first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def inside(self, node: ast.AST) -> list[ast.AST]:
        """Returns a node and all that it has, functions defined in it included, in the order of the source."""
        if node not in self._inside:
            nodes, waiting = list[ast.AST](), [node]
            while waiting:
                each = waiting.pop()
                nodes.append(each)
                waiting.extend(reversed(self.children.get(each, ())))
            self._inside[node] = nodes
        return self._inside[node]


def build_module(path: Path, name: str, tree: ast.Module, lines: Sequence[str]) -> Module:
    """Returns the model of a module."""
    module = Module(path, name, tree, lines)
    top = Function("", tree, module)
    module.functions.append(top)
    waiting: list[tuple[ast.AST, Function, str]] = [(each, top, "") for each in reversed(tree.body)]
    module.children[tree] = list(tree.body)
    for each in tree.body:
        module.parents[each] = tree
    while waiting:
        node, function, owner = waiting.pop()
        module.within[node] = function
        function.nodes.append(node)
        inner, inner_owner = function, owner
        if isinstance(node, ast.FunctionDef):
            inner, inner_owner = Function(node.name, node, module, owner, function), ""
            module.functions.append(inner)
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = [chain(base) for base in node.bases]
            inner_owner = node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            _import(module, node)
        else:
            _assign(node, function)
        children = _parts(node)
        module.children[node] = children
        for child in children:
            module.parents[child] = node
        waiting.extend((child, inner, inner_owner) for child in reversed(children))
    _short_names(module, top)
    return module


def _parts(node: ast.AST) -> list[ast.AST]:
    """Returns what a node is made of, without the branch that never runs: that of `if False:`."""
    parts: list[ast.AST] = []
    # `ast.iter_child_nodes`, written out: it is called for each node of all files.
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            parts += [each for each in value if isinstance(each, ast.AST) and not isinstance(each, SHARED_NODES)]
        elif isinstance(value, ast.AST) and not isinstance(value, SHARED_NODES):
            parts.append(value)
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Constant):
        dead = node.orelse if node.test.value else node.body
        parts = [each for each in parts if not any(each is other for other in dead)]
    return parts


def _import(module: Module, node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            # `import a.b` binds a, `import a.b as c` binds a.b.
            module.imports[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
        return
    package = module.name.split(".")[: -node.level] if node.level else []
    source = ".".join([*package, *([node.module] if node.module else [])])
    for alias in node.names:
        name = f"*{source}" if alias.name == "*" else alias.asname or alias.name
        module.imports[name] = f"{source}.{alias.name}" if source else alias.name


def _short_names(module: Module, top: Function) -> None:
    # `slim = tf.contrib.slim`: a name that is given once, and a dotted name.
    for name, given in top.assigned.items():
        if len(given) == 1 and "." not in name and name not in module.imports:
            whole = chain(given[0].value)
            first = whole.partition(".")[0]
            if "." in whole and first in module.imports and isinstance(given[0].value, ast.Attribute):
                module.imports[name] = module.imports[first] + whole[len(first) :]


def _assign(node: ast.AST, function: Function) -> None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _give(function, target, node.value, node, "=")
    elif isinstance(node, ast.AugAssign):
        _give(function, node.target, node.value, node, "+=")
    elif isinstance(node, (ast.For, ast.comprehension)):
        _give(function, node.target, node.iter, node, "for")
    elif isinstance(node, ast.With):
        for item in node.items:
            if item.optional_vars is not None:
                _give(function, item.optional_vars, item.context_expr, node, "with")
    elif isinstance(node, ast.NamedExpr):
        _give(function, node.target, node.value, node, "=")
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.args
        and node.func.attr in ("append", "extend", "insert", "add")
    ):
        _give(function, node.func.value, node.args[-1], node, "append")


def _give(
    function: Function, target: ast.expr, value: ast.expr, by: ast.AST, how: str, place: int | None = None
) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for number, each in enumerate(target.elts):
            if same and how == "=" and isinstance(value, ast.Tuple | ast.List):
                _give(function, each, value.elts[number], by, how)
            else:
                _give(function, each, value, by, how, number)
    elif isinstance(target, ast.Subscript):
        _give(function, target.value, value, by, "append" if how == "=" else how)
    elif isinstance(target, ast.Starred):
        _give(function, target.value, value, by, how, place)
    else:
        name = chain(target)
        if name:
            function.assigned.setdefault(name, []).append(Assigned(value, by, how, place))
