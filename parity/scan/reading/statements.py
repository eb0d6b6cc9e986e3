"""Statements of tree-sitter's trees as nodes of `ast`, those of Python 2 included."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tree_sitter_python
from tree_sitter import Language, Node, Parser

from parity.scan.reading.expressions import (
    LOAD,
    MOST_DEPTH_OF_SOURCE,
    OPERATORS,
    arguments,
    at,
    expression,
    named,
    parameters,
    text_of,
)

ConvertStatement = Callable[[Node, int], ast.stmt]
STATEMENT_KINDS: dict[str, ConvertStatement] = {}
LANGUAGE = Language(tree_sitter_python.language())
TAB_IN_INDENT = re.compile(r"^[ \t]*\t", re.MULTILINE)


class Parsed(NamedTuple):
    """A syntax tree, of as much of a source as is understood.

    Fields:
      tree: the statements.
      broken: lines, from 1, that hold what is no Python, neither 2 nor 3; empty where all is.
    """

    tree: ast.Module
    broken: tuple[int, ...]


def parse(source: str) -> Parsed:
    """Returns the syntax tree of a source; what is no Python is left out of it, and said."""
    root = _root_of(source)
    if root.has_error and TAB_IN_INDENT.search(source):
        # To Python a tab goes to the next multiple of 8 columns, to the grammar it is 8 wide: they part where blanks stand
        # in front of one.
        root = _root_of(TAB_IN_INDENT.sub(lambda found: found[0].expandtabs(8), source))
    tree = ast.Module(body=_block(root, 0), type_ignores=[])
    return Parsed(tree, tuple(_broken(root)) if root.has_error else ())


def _root_of(source: str) -> Node:
    return Parser(LANGUAGE).parse(source.encode("utf-8", "replace")).root_node


def _broken(root: Node) -> Iterator[int]:
    waiting = [root]
    last = 0
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            if node.start_point[0] + 1 != last:
                last = node.start_point[0] + 1
                yield last
        elif node.has_error:
            waiting.extend(reversed(node.children))


def _statement(*types: str) -> Callable[[ConvertStatement], ConvertStatement]:
    def put(function: ConvertStatement) -> ConvertStatement:
        for each in types:
            STATEMENT_KINDS[each] = function
        return function

    return put


def _block(node: Node | None, depth: int) -> list[ast.stmt]:
    if node is None or depth > MOST_DEPTH_OF_SOURCE:
        return []
    statements: list[ast.stmt] = []
    for child in node.named_children:
        convert = STATEMENT_KINDS.get(child.type)
        if convert is not None:
            statements.append(at(convert(child, depth + 1), child))
        elif child.type == "ERROR":
            # What a parser could not place may hold whole statements all the same.
            statements += _block(child, depth + 1)
    return statements


@_statement("expression_statement")
def _expression_statement(node: Node, depth: int) -> ast.stmt:
    inside = named(node)
    if len(inside) == 1:
        if inside[0].type == "assignment":
            return _assignment(inside[0], depth)
        if inside[0].type == "augmented_assignment":
            return _augmented(inside[0], depth)
        return ast.Expr(value=expression(inside[0], depth))
    return ast.Expr(value=at(ast.Tuple(elts=[expression(each, depth) for each in inside], ctx=LOAD), node))


def _assignment(node: Node, depth: int) -> ast.stmt:
    targets, value = [expression(node.child_by_field_name("left"), depth)], node.child_by_field_name("right")
    while value is not None and value.type == "assignment":
        targets.append(expression(value.child_by_field_name("left"), depth))
        value = value.child_by_field_name("right")
    return ast.Assign(targets=targets, value=expression(value, depth))


def _augmented(node: Node, depth: int) -> ast.stmt:
    operator = OPERATORS.get(text_of(node.child_by_field_name("operator"))[:-1], ast.Add)
    target = expression(node.child_by_field_name("left"), depth)
    value = expression(node.child_by_field_name("right"), depth)
    return ast.AugAssign(target=target, op=operator(), value=value)  # type: ignore[arg-type]


@_statement("print_statement", "exec_statement")
def _print(node: Node, depth: int) -> ast.stmt:
    name = at(ast.Name(id=node.type.partition("_")[0], ctx=LOAD), node)
    return ast.Expr(
        value=at(ast.Call(func=name, args=[expression(each, depth) for each in named(node)], keywords=[]), node)
    )


@_statement("import_statement")
def _import(node: Node, depth: int) -> ast.stmt:
    return ast.Import(names=_aliases(node))


@_statement("import_from_statement", "future_import_statement")
def _import_from(node: Node, depth: int) -> ast.stmt:
    module = text_of(node.child_by_field_name("module_name")) if node.type[0] == "i" else "__future__"
    name = module.lstrip(".")
    aliases = _aliases(node)
    if any(child.type == "wildcard_import" for child in node.named_children):
        aliases = [ast.alias(name="*", asname=None)]
    return ast.ImportFrom(module=name or None, names=aliases, level=len(module) - len(name))


def _aliases(node: Node) -> list[ast.alias]:
    aliases = []
    for child in node.children_by_field_name("name"):
        asname = text_of(child.child_by_field_name("alias")) or None
        name = text_of(child.child_by_field_name("name")) if child.type == "aliased_import" else text_of(child)
        aliases.append(at(ast.alias(name="".join(name.split()), asname=asname), child))
    return aliases


@_statement("function_definition")
def _function(node: Node, depth: int) -> ast.stmt:
    return ast.FunctionDef(
        name=text_of(node.child_by_field_name("name")),
        args=parameters(node.child_by_field_name("parameters"), depth),
        body=_block(node.child_by_field_name("body"), depth),
        decorator_list=[],
    )


@_statement("class_definition")
def _class(node: Node, depth: int) -> ast.stmt:
    bases, keywords = arguments(node.child_by_field_name("superclasses"), depth)
    body = _block(node.child_by_field_name("body"), depth)
    name = text_of(node.child_by_field_name("name"))
    return ast.ClassDef(name=name, bases=bases, keywords=keywords, body=body, decorator_list=[])


@_statement("decorated_definition")
def _decorated(node: Node, depth: int) -> ast.stmt:
    inside = node.child_by_field_name("definition")
    if inside is None or inside.type not in STATEMENT_KINDS:
        return ast.Pass()
    defined = at(STATEMENT_KINDS[inside.type](inside, depth), inside)
    marks = [expression(named(each)[0], depth) for each in named(node) if each.type == "decorator" and named(each)]
    defined.decorator_list = marks
    return defined  # type: ignore[no-any-return]


@_statement("if_statement")
def _if(node: Node, depth: int) -> ast.stmt:
    test = expression(node.child_by_field_name("condition"), depth)
    first = ast.If(test=test, body=_block(node.child_by_field_name("consequence"), depth), orelse=[])
    last = first
    for clause in node.children_by_field_name("alternative"):
        if clause.type == "elif_clause":
            test = expression(clause.child_by_field_name("condition"), depth)
            body = _block(clause.child_by_field_name("consequence"), depth)
            following = at(ast.If(test=test, body=body, orelse=[]), clause)
            last.orelse = [following]
            last = following
        else:
            last.orelse = _block(clause.child_by_field_name("body"), depth)
    return first


@_statement("for_statement")
def _for(node: Node, depth: int) -> ast.stmt:
    target = expression(node.child_by_field_name("left"), depth)
    over = expression(node.child_by_field_name("right"), depth)
    body = _block(node.child_by_field_name("body"), depth)
    return ast.For(target=target, iter=over, body=body, orelse=_alternative(node, depth))


@_statement("while_statement")
def _while(node: Node, depth: int) -> ast.stmt:
    test = expression(node.child_by_field_name("condition"), depth)
    return ast.While(test=test, body=_block(node.child_by_field_name("body"), depth), orelse=_alternative(node, depth))


def _alternative(node: Node, depth: int) -> list[ast.stmt]:
    clause = node.child_by_field_name("alternative")
    return _block(clause.child_by_field_name("body"), depth) if clause is not None else []


@_statement("with_statement")
def _with(node: Node, depth: int) -> ast.stmt:
    items: list[ast.withitem] = []
    for clause in (child for child in node.named_children if child.type == "with_clause"):
        for item in (child for child in clause.named_children if child.type == "with_item"):
            items += _items(item.child_by_field_name("value"), depth)
    return ast.With(items=items, body=_block(node.child_by_field_name("body"), depth))


def _items(value: Node | None, depth: int) -> list[ast.withitem]:
    if value is not None and value.type == "tuple":
        return [item for each in named(value) for item in _items(each, depth)]
    if value is not None and value.type == "as_pattern":
        inside = named(value)
        alias = value.child_by_field_name("alias")
        return [ast.withitem(expression(inside[0] if inside else None, depth), expression(alias, depth))]
    return [ast.withitem(expression(value, depth), None)]


@_statement("try_statement")
def _try(node: Node, depth: int) -> ast.stmt:
    body, handlers, otherwise, final = _block(node.child_by_field_name("body"), depth), [], [], []
    for clause in node.named_children:
        block = next((child for child in clause.named_children if child.type == "block"), None)
        if clause.type in ("except_clause", "except_group_clause"):
            handlers.append(at(ast.ExceptHandler(type=None, name=None, body=_block(block, depth)), clause))
        elif clause.type == "else_clause":
            otherwise = _block(clause.child_by_field_name("body"), depth)
        elif clause.type == "finally_clause":
            final = _block(block, depth)
    return ast.Try(body=body, handlers=handlers, orelse=otherwise, finalbody=final)


@_statement("match_statement")
def _match(node: Node, depth: int) -> ast.stmt:
    # As one block: which case is taken is not decided here.
    block = node.child_by_field_name("body")
    cases = [child.child_by_field_name("consequence") for child in named(block)] if block is not None else []
    return ast.If(
        test=ast.Constant(value=...), body=[each for case in cases for each in _block(case, depth)], orelse=[]
    )


@_statement("return_statement")
def _return(node: Node, depth: int) -> ast.stmt:
    inside = named(node)
    return ast.Return(value=expression(inside[0], depth) if inside else None)


@_statement("raise_statement")
def _raise(node: Node, depth: int) -> ast.stmt:
    inside = named(node)
    return ast.Raise(exc=expression(inside[0], depth) if inside else None, cause=None)


@_statement("delete_statement")
def _delete(node: Node, depth: int) -> ast.stmt:
    return ast.Delete(targets=[expression(each, depth) for each in named(node)])


@_statement("assert_statement")
def _assert(node: Node, depth: int) -> ast.stmt:
    inside = [expression(each, depth) for each in named(node)]
    test = inside[0] if inside else ast.Constant(value=...)
    return ast.Assert(test=test, msg=inside[1] if len(inside) > 1 else None)


@_statement("pass_statement", "global_statement", "nonlocal_statement", "type_alias_statement")
def _pass(node: Node, depth: int) -> ast.stmt:
    return ast.Pass()


@_statement("break_statement")
def _break(node: Node, depth: int) -> ast.stmt:
    return ast.Break()


@_statement("continue_statement")
def _continue(node: Node, depth: int) -> ast.stmt:
    return ast.Continue()
