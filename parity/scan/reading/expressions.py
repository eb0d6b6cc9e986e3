"""Expressions of tree-sitter's trees as nodes of `ast`, whatever Python they are written in."""

import ast
from collections.abc import Callable
from typing import Any

from tree_sitter import Node

MOST_DEPTH_OF_SOURCE = 150  # of expressions and blocks in each other; what lies deeper is left out
Convert = Callable[[Node, int], ast.expr]
EXPRESSIONS: dict[str, Convert] = {}
COMPARISONS_OF_PYTHON: dict[str, Any] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<>": ast.NotEq,
    "in": ast.In,
    "not in": ast.NotIn,
    "is": ast.Is,
    "is not": ast.IsNot,
}
OPERATORS: dict[str, Any] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "**": ast.Pow,
    "@": ast.MatMult,
    "<<": ast.LShift,
    ">>": ast.RShift,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "^": ast.BitXor,
}
UNARY_OPERATORS: dict[str, Any] = {"-": ast.USub, "+": ast.UAdd, "~": ast.Invert}
CONSTANTS_OF_PYTHON = {"true": True, "false": False, "none": None, "ellipsis": ...}
LOAD = ast.Load()


def converts(*types: str) -> Callable[[Convert], Convert]:
    """Puts a function into `EXPRESSIONS`, under each of some types of nodes."""

    def put(function: Convert) -> Convert:
        for each in types:
            if each in EXPRESSIONS:
                raise KeyError(f"two functions convert {each}")
            EXPRESSIONS[each] = function
        return function

    return put


def expression(node: Node | None, depth: int = 0) -> ast.expr:
    """Returns an expression; one that is not known, or lies too deep, is `...`."""
    if node is None:
        return ast.Constant(value=...)
    convert = EXPRESSIONS.get(node.type)
    if convert is None or depth > MOST_DEPTH_OF_SOURCE:
        return _placed(ast.Constant(value=...), node)
    return _placed(convert(node, depth + 1), node)


def _placed(converted: ast.expr, node: Node) -> ast.expr:
    at(converted, node)
    return converted


def at(converted: Any, node: Node) -> Any:
    """Returns a node of `ast` with its place: lines from 1, columns in bytes of UTF-8 from 0."""
    start, end = node.start_point, node.end_point
    converted.lineno, converted.col_offset = start[0] + 1, start[1]
    converted.end_lineno, converted.end_col_offset = end[0] + 1, end[1]
    return converted


def text_of(node: Node | None) -> str:
    """Returns the source of a node."""
    return node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""


def named(node: Node) -> list[Node]:
    """Returns the children that mean something."""
    return [child for child in node.named_children if child.type not in ("comment", "line_continuation", "ERROR")]


@converts("identifier", "keyword_identifier", "type_identifier", "print", "exec")
def _name(node: Node, depth: int) -> ast.expr:
    return ast.Name(id=text_of(node), ctx=LOAD)


@converts("dotted_name")
def _dotted(node: Node, depth: int) -> ast.expr:
    first, *rest = text_of(node).split(".")
    whole: ast.expr = at(ast.Name(id=first.strip(), ctx=LOAD), node)
    for name in rest:
        whole = at(ast.Attribute(value=whole, attr=name.strip(), ctx=LOAD), node)
    return whole


@converts("attribute")
def _attribute(node: Node, depth: int) -> ast.expr:
    value = expression(node.child_by_field_name("object"), depth)
    return ast.Attribute(value=value, attr=text_of(node.child_by_field_name("attribute")), ctx=LOAD)


@converts("call")
def _call(node: Node, depth: int) -> ast.expr:
    args, keywords = arguments(node.child_by_field_name("arguments"), depth)
    return ast.Call(func=expression(node.child_by_field_name("function"), depth), args=args, keywords=keywords)


def arguments(node: Node | None, depth: int) -> tuple[list[ast.expr], list[ast.keyword]]:
    """Returns what stands between the parentheses of a call."""
    args: list[ast.expr] = []
    keywords: list[ast.keyword] = []
    if node is None:
        return args, keywords
    if node.type == "generator_expression":
        return [expression(node, depth)], keywords
    for child in named(node):
        if child.type == "keyword_argument":
            value = expression(child.child_by_field_name("value"), depth)
            keywords.append(at(ast.keyword(arg=text_of(child.child_by_field_name("name")), value=value), child))
        elif child.type == "dictionary_splat":
            keywords.append(at(ast.keyword(arg=None, value=_only(child, depth)), child))
        else:
            args.append(expression(child, depth))
    return args, keywords


@converts("list_splat", "list_splat_pattern", "dictionary_splat", "dictionary_splat_pattern")
def _starred(node: Node, depth: int) -> ast.expr:
    return ast.Starred(value=_only(node, depth), ctx=LOAD)


def _only(node: Node, depth: int) -> ast.expr:
    inside = named(node)
    return expression(inside[0], depth) if inside else ast.Constant(value=...)


@converts(
    "parenthesized_expression", "await", "type", "as_pattern_target", "chevron", "constrained_type", "member_type"
)
def _inside(node: Node, depth: int) -> ast.expr:
    return _only(node, depth)


@converts("subscript")
def _subscript(node: Node, depth: int) -> ast.expr:
    inside = [expression(each, depth) for each in node.children_by_field_name("subscript")]
    index = inside[0] if len(inside) == 1 else at(ast.Tuple(elts=inside, ctx=LOAD), node)
    return ast.Subscript(value=expression(node.child_by_field_name("value"), depth), slice=index, ctx=LOAD)


@converts("slice")
def _slice(node: Node, depth: int) -> ast.expr:
    parts: list[ast.expr | None] = [None]
    for child in node.children:
        if child.type == ":":
            parts.append(None)
        elif child.is_named and child.type != "comment":
            parts[-1] = expression(child, depth)
    parts = [*parts, None, None][:3]
    return ast.Slice(lower=parts[0], upper=parts[1], step=parts[2])


@converts("tuple", "expression_list", "pattern_list", "tuple_pattern")
def _tuple(node: Node, depth: int) -> ast.expr:
    return ast.Tuple(elts=[expression(each, depth) for each in named(node)], ctx=LOAD)


@converts("list", "list_pattern")
def _list(node: Node, depth: int) -> ast.expr:
    return ast.List(elts=[expression(each, depth) for each in named(node)], ctx=LOAD)


@converts("set")
def _set(node: Node, depth: int) -> ast.expr:
    return ast.Set(elts=[expression(each, depth) for each in named(node)])


@converts("dictionary")
def _dictionary(node: Node, depth: int) -> ast.expr:
    keys: list[ast.expr | None] = []
    values: list[ast.expr] = []
    for child in named(node):
        if child.type == "pair":
            keys.append(expression(child.child_by_field_name("key"), depth))
            values.append(expression(child.child_by_field_name("value"), depth))
        elif child.type == "dictionary_splat":
            keys.append(None)
            values.append(_only(child, depth))
    return ast.Dict(keys=keys, values=values)


@converts("integer", "float")
def _number(node: Node, depth: int) -> ast.expr:
    return ast.Constant(value=number_of(text_of(node)))


def number_of(text: str) -> int | float | complex:
    """Returns the value of a literal, those of Python 2 included: 0777, 10L."""
    plain = text.replace("_", "").rstrip("lL")
    try:
        if plain[:2].lower() in ("0x", "0o", "0b"):
            return int(plain, 0)
        if len(plain) > 1 and plain.isdigit() and plain[0] == "0":
            return int(plain, 8)
        return int(plain) if plain.isdigit() else complex(plain) if plain[-1:] in "jJ" else float(plain)
    except (ValueError, IndexError):
        return 0


@converts("true", "false", "none", "ellipsis")
def _constant(node: Node, depth: int) -> ast.expr:
    return ast.Constant(value=CONSTANTS_OF_PYTHON[node.type])


@converts("string")
def _string(node: Node, depth: int) -> ast.expr:
    children = node.children
    begin = text_of(children[0]).lower() if children else ""
    if "f" in begin or "t" in begin:
        return ast.JoinedStr(values=[_piece(each, depth) for each in named(node)[1:] if each.type != "string_end"])
    return ast.Constant(value="".join(text_of(each) for each in children if each.type == "string_content"))


def _piece(node: Node, depth: int) -> ast.expr:
    if node.type != "interpolation":
        return _placed(ast.Constant(value=text_of(node)), node)
    value = expression(node.child_by_field_name("expression"), depth)
    return _placed(ast.FormattedValue(value=value, conversion=-1, format_spec=None), node)


@converts("concatenated_string")
def _strings(node: Node, depth: int) -> ast.expr:
    pieces = [expression(each, depth) for each in named(node)]
    if all(isinstance(each, ast.Constant) for each in pieces):
        return ast.Constant(value="".join(str(each.value) for each in pieces if isinstance(each, ast.Constant)))
    return ast.JoinedStr(
        values=[part for each in pieces for part in (each.values if isinstance(each, ast.JoinedStr) else [each])]
    )


@converts("binary_operator")
def _binary(node: Node, depth: int) -> ast.expr:
    operator = OPERATORS.get(text_of(node.child_by_field_name("operator")), ast.Add)
    left = expression(node.child_by_field_name("left"), depth)
    return ast.BinOp(left=left, op=operator(), right=expression(node.child_by_field_name("right"), depth))


@converts("unary_operator")
def _unary(node: Node, depth: int) -> ast.expr:
    operator = UNARY_OPERATORS.get(text_of(node.child_by_field_name("operator")), ast.USub)()
    return ast.UnaryOp(op=operator, operand=expression(node.child_by_field_name("argument"), depth))


@converts("not_operator")
def _not(node: Node, depth: int) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=expression(node.child_by_field_name("argument"), depth))


@converts("boolean_operator")
def _boolean(node: Node, depth: int) -> ast.expr:
    operator = ast.And() if text_of(node.child_by_field_name("operator")) == "and" else ast.Or()
    sides = [expression(node.child_by_field_name(side), depth) for side in ("left", "right")]
    return ast.BoolOp(op=operator, values=sides)


@converts("comparison_operator")
def _comparison(node: Node, depth: int) -> ast.expr:
    values = [expression(each, depth) for each in named(node)]
    words = [" ".join(text_of(each).split()) for each in node.children_by_field_name("operators")]
    operators = [COMPARISONS_OF_PYTHON.get(word, ast.Eq)() for word in words]
    return ast.Compare(left=values[0] if values else ast.Constant(value=...), ops=operators, comparators=values[1:])


@converts("conditional_expression")
def _conditional(node: Node, depth: int) -> ast.expr:
    parts = [expression(each, depth) for each in named(node)]
    while len(parts) < 3:
        parts.append(ast.Constant(value=...))
    return ast.IfExp(body=parts[0], test=parts[1], orelse=parts[2])


@converts("named_expression")
def _walrus(node: Node, depth: int) -> ast.expr:
    target = at(ast.Name(id=text_of(node.child_by_field_name("name")), ctx=ast.Store()), node)
    return ast.NamedExpr(target=target, value=expression(node.child_by_field_name("value"), depth))


@converts("lambda", "lambda_within_for_in_clause")
def _lambda(node: Node, depth: int) -> ast.expr:
    body = expression(node.child_by_field_name("body"), depth)
    return ast.Lambda(args=parameters(node.child_by_field_name("parameters"), depth), body=body)


@converts("yield")
def _yield(node: Node, depth: int) -> ast.expr:
    return ast.Yield(value=_only(node, depth))


@converts("list_comprehension", "generator_expression", "set_comprehension")
def _comprehension(node: Node, depth: int) -> ast.expr:
    element = expression(node.child_by_field_name("body"), depth)
    if node.type == "list_comprehension":
        return ast.ListComp(elt=element, generators=_clauses(node, depth))
    if node.type == "set_comprehension":
        return ast.SetComp(elt=element, generators=_clauses(node, depth))
    return ast.GeneratorExp(elt=element, generators=_clauses(node, depth))


@converts("dictionary_comprehension")
def _dict_comprehension(node: Node, depth: int) -> ast.expr:
    body = node.child_by_field_name("body")
    key = expression(body.child_by_field_name("key") if body else None, depth)
    value = expression(body.child_by_field_name("value") if body else None, depth)
    return ast.DictComp(key=key, value=value, generators=_clauses(node, depth))


def _clauses(node: Node, depth: int) -> list[ast.comprehension]:
    clauses: list[ast.comprehension] = []
    for child in named(node):
        if child.type == "for_in_clause":
            target = expression(child.child_by_field_name("left"), depth)
            sides = [expression(each, depth) for each in child.children_by_field_name("right")]
            over = sides[0] if len(sides) == 1 else at(ast.Tuple(elts=sides, ctx=LOAD), child)
            clauses.append(ast.comprehension(target=target, iter=over, ifs=[], is_async=0))
        elif child.type == "if_clause" and clauses:
            clauses[-1].ifs.append(_only(child, depth))
    return clauses


def parameters(node: Node | None, depth: int) -> ast.arguments:
    """Returns the parameters of a function; of a tuple of names, which Python 2 has, the source."""
    found = ast.arguments(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])
    for child in named(node) if node is not None else ():
        name, default = child, child.child_by_field_name("value")
        if child.type in ("default_parameter", "typed_default_parameter"):
            name = child.child_by_field_name("name") or child
        elif child.type == "typed_parameter":
            name = named(child)[0] if named(child) else child
        argument = at(ast.arg(arg=text_of(name).lstrip("*"), annotation=None), child)
        if name.type == "list_splat_pattern":
            found.vararg = argument
        elif name.type == "dictionary_splat_pattern":
            found.kwarg = argument
        elif child.type not in ("keyword_separator", "positional_separator"):
            if default is not None:
                found.defaults.append(expression(default, depth))
            elif found.defaults:  # after "*"; what Python would refuse gets no value
                found.defaults.append(ast.Constant(value=...))
            found.args.append(argument)
    return found
