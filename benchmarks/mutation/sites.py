"""Lists the places at which a module can be changed a little, and what it reads after the change."""

import ast
from collections.abc import Callable, Iterator
from types import CodeType
from typing import NamedTuple

MODULE = "<module>"
COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "all": "any", "any": "all"}
RETURNED = {
    "bool": ("True", "False"),
    "str": ('""',),
    "int": ("0",),
    "float": ("0.0",),
    "list": ("[]",),
    "dict": ("{}",),
}


class Site(NamedTuple):
    """One change of one module.

    Fields:
      kind: which sort, e.g. "comparison".
      line: of the first character that goes.
      source: text of that line.
      statement: first and last line of the statement around it, of one with a body as far as the body; the lines that who
        runs it is at. None where these are not run by who runs the function: for a default, and outside functions.
      function: name of the innermost function around it, `MODULE` where there is none.
      begin, end: offsets in the UTF-8 text.
      before, after: text that goes and text that comes.
    """

    kind: str
    line: int
    source: str
    statement: tuple[int, int] | None
    function: str
    begin: int
    end: int
    before: str
    after: str

    def applied(self, text: str) -> str:
        """Returns the module after the change."""
        raw = text.encode()
        return (raw[: self.begin] + self.after.encode() + raw[self.end :]).decode()


class _Finder(ast.NodeVisitor):
    def __init__(self, text: str) -> None:
        self.raw = text.encode()
        self.sites: list[Site] = []
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self._statement: ast.stmt | None = None
        self._starts = [0]
        for line in self.raw.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        around, self._statement = self._statement, None  # a default is read where the function is defined
        self._functions.append(node)
        self._return_early(node)
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        self._body(node.body)
        self._functions.pop()
        self._statement = around

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Python before 3.12 does not say where the parts of an f-string are."""

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._condition(node.test, "True", "False")
        self.visit(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test, "True", "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test, "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test, "True", "False")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            for other in COMPARED.get(type(node.ops[0]), ()):
                self._replace("comparison", node, ast.Compare(node.left, [other()], node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._replace("and, or", node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("not", node, node.operand)
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._replace("sign", node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not any(map(_is_text, (node.left, node.right))):
            self._replace("arithmetic", node, ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) in (int, float):
            wanted = {node.value * 2, node.value * 1000, type(node.value)(not node.value)} - {node.value}
            for value in sorted(wanted):
                self._replace("constant", node, ast.Constant(value))
        elif isinstance(node.value, bool):
            self._replace("constant", node, ast.Constant(not node.value))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in EXTREMES:
            other = EXTREMES[name]
            func = ast.Attribute(node.func.value, other) if isinstance(node.func, ast.Attribute) else ast.Name(other)
            self._replace("min, max", node, ast.Call(func, node.args, node.keywords))
        for place in range(len(node.keywords)):
            self._replace("argument", node, ast.Call(node.func, node.args, _without(node.keywords, place)))
        if len(node.args) > 1:
            self._replace("argument", node, ast.Call(node.func, node.args[:-1], node.keywords))
        self.generic_visit(node)

    def _body(self, body: list[ast.stmt]) -> None:
        around = self._statement
        for node in body:
            self._statement = node if self._functions else None
            self._drop(node)
            self.visit(node)
        self._statement = around

    def generic_visit(self, node: ast.AST) -> None:
        """Goes on, statement by statement where there is a body."""
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self._body(value)
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, ast.AST):
                        self.visit(each)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def _drop(self, node: ast.stmt) -> None:
        dropped: tuple[type[ast.stmt], ...] = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)
        called = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        stored = isinstance(node, ast.Assign) and all(
            isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets
        )
        if self._functions and (called or stored or isinstance(node, dropped)):
            self._add("statement", node, "pass")

    def _return_early(self, node: ast.FunctionDef) -> None:
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if not body or isinstance(body[0], ast.Raise | ast.Pass) or _is_stub(body[0]):
            return
        begin = self._offset(body[0].lineno, body[0].col_offset)
        for value in _early(node):
            self._sites("return early", body[0].lineno, begin, begin, f"return {value}; ".replace(" ;", ";"))

    def _condition(self, test: ast.expr, *values: str) -> None:
        for value in values:
            self._add("condition", test, value)

    def _replace(self, kind: str, node: ast.expr, other: ast.expr) -> None:
        self._add(kind, node, f"({ast.unparse(ast.fix_missing_locations(other))})")

    def _add(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin, end = self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)
        self._sites(kind, node.lineno, begin, end, after)

    def _sites(self, kind: str, line: int, begin: int, end: int, after: str) -> None:
        function = self._functions[-1].name if self._functions else MODULE
        before = self.raw[begin:end].decode()
        source = self.raw.split(b"\n")[line - 1].decode().strip()
        self.sites.append(Site(kind, line, source, self._lines(), function, begin, end, before, after))

    def _lines(self) -> tuple[int, int] | None:
        node = self._statement
        if node is None:
            return None
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno
        return node.lineno, max(node.lineno, last or 0)

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def sites_of(text: str) -> list[Site]:
    """Returns every change of a module that this knows; not all of them can be read, see `is_readable`."""
    finder = _Finder(text)
    finder._body(ast.parse(text).body)
    return finder.sites


def is_readable(text: str) -> bool:
    """Returns whether a module is one that Python can read."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def is_same(text: str, other: str) -> bool:
    """Returns whether Python compiles two texts of a module to the same, but for where it stands in the file."""
    return _compiled(compile(text, "", "exec")) == _compiled(compile(other, "", "exec"))


def _compiled(code: CodeType) -> tuple[object, ...]:
    constants = tuple(
        _compiled(each) if isinstance(each, CodeType) else (type(each), repr(each)) for each in code.co_consts
    )
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return (code.co_code, constants, *names, code.co_flags, code.co_argcount, code.co_kwonlyargcount)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_stub(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _without(keywords: list[ast.keyword], place: int) -> list[ast.keyword]:
    return [keyword for at, keyword in enumerate(keywords) if at != place]


def _early(node: ast.FunctionDef) -> Iterator[str]:
    own: Callable[[ast.AST], bool] = lambda each: isinstance(each, ast.Yield | ast.YieldFrom)  # noqa: E731
    if any(own(each) for each in ast.walk(node)):
        yield ""
        return
    returned = node.returns
    if returned is None:
        return
    text = ast.unparse(returned)
    if "None" in text:
        yield "None"
    yield from RETURNED.get(text.partition("[")[0], ())
