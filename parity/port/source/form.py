"""The form of generated source: lines of at most 120 characters, wrapped as ruff and black do, and types that mypy needs."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

LINE_WIDTH = 120
TENSOR = "torch.Tensor"
INDENT = "    "


def indented(lines: Sequence[str], levels: int = 1) -> Iterator[str]:
    """Yields lines further to the right, wrapped where they are too long for it."""
    for line in lines:
        own = line[: len(line) - len(line.lstrip(" "))]
        yield from wrapped(line.lstrip(" "), own + INDENT * levels) if line else [""]


def wrapped(statement: str, indent: str = "") -> list[str]:
    """Returns the lines of a statement; a comment at its end goes in front where there is no room for it."""
    code, _, comment = _commented(statement)
    if len(indent + statement) <= LINE_WIDTH:
        return [indent + statement]
    # A comment never makes code wrap: it gets a line of its own first.
    before = [f"{indent}# {comment}"] if comment and len(indent + code) <= LINE_WIDTH else []
    if before:
        return [*before, indent + code]
    lines = _split(code, indent)
    return [f"{indent}# {comment}", *lines] if comment else lines


def _commented(statement: str) -> tuple[str, str, str]:
    """The code, and the comment at its end."""
    code, separator, comment = statement.rpartition("  # ")
    return (code, separator, comment) if separator else (statement, "", "")


def _split(code: str, indent: str) -> list[str]:
    if code.endswith(("(", "[", "{")):
        # The beginning of what was wrapped before, and stands further to the right now: what follows is inside.
        head, body, tail = _last_bracket(code[:-1])
        return (
            [indent + head, *wrapped(body, indent + INDENT), f"{indent}{tail}{code[-1]}"] if body else [indent + code]
        )
    several = _several(code, indent)
    if several:
        return several
    head, body, tail = _last_bracket(code)
    if body and len(indent + head) > LINE_WIDTH and (earlier := re.match(r"(.*\))(\.\w+\()$", head)):
        # What is called on the result stays behind the bracket that is opened.
        head, inside, closing = _last_bracket(earlier[1])
        body, tail = (inside, f"{closing}{earlier[2]}{body}{tail}") if inside else (body, tail)
    if body:
        inner = indent + INDENT
        # As ruff formats: all arguments on one line where they fit, else one on each.
        if len(inner + body) <= LINE_WIDTH and head[-2:-1].isalnum():  # of a call; a list has one on each line
            return [indent + head, inner + body, indent + tail]
        parts = [each.strip() for each in _parts(body, ",")]
        # Brackets that only group what is computed: a comma in them would make a tuple of it.
        if len(parts) == 1 and head.endswith("(") and not re.search(r"[\w)\]]\($", head):
            return [indent + head, *(line for each in _operands(body) for line in wrapped(each, inner)), indent + tail]
        if len(parts) > 1 or head.endswith(("(", "[")):
            lines = [line for each in parts for line in wrapped(f"{each},", inner)]
            return [indent + head, *lines, indent + tail]
    start, expression = _expression(code)
    if not start:
        # Arguments of a call that had room on one line, before the call stood further to the right.
        parts = [each.strip() for each in _parts(code, ",") if each.strip()]
        return [f"{indent}{each}," for each in parts] if len(parts) > 1 else [indent + code]
    operands = [*_operands(expression)]
    inner = indent + INDENT
    if len(inner + expression) <= LINE_WIDTH:
        return [f"{indent}{start}(", inner + expression, f"{indent})"]
    return [f"{indent}{start}(", *(inner + each for each in operands), f"{indent})"]


def _several(code: str, indent: str) -> list[str]:
    """The lines of a return of several, or of an assignment to several; none of anything else."""
    start, expression = _expression(code)
    inner = indent + INDENT
    returned = [each.strip() for each in _parts(expression, ",")] if start == "return " else []
    if len(returned) > 1:
        return [f"{indent}return (", *(line for each in returned for line in wrapped(f"{each},", inner)), f"{indent})"]
    names = start.removesuffix(" = ").split(", ") if start.endswith(" = ") else []
    if len(names) > 1:
        return [f"{indent}(", *(f"{inner}{name}," for name in names), *wrapped(f") = {expression}", indent)]
    return []


def _last_bracket(code: str) -> tuple[str, str, str]:
    """What stands up to, in and from the bracket that the code ends with; it is all of an expression's arguments."""
    end = len(code)
    for tail in ("):", ") -> None:", "),", ")", "],", "]"):
        if code.endswith(tail):
            end = len(code) - len(tail)
            break
    else:
        arrow = code.rfind(") -> ")
        if not code.endswith(":") or arrow < 0:
            return code, "", ""
        end = arrow
    depth = 0
    for place in range(end, -1, -1):
        depth += {")": 1, "]": 1, "}": 1, "(": -1, "[": -1, "{": -1}.get(code[place], 0)
        if not depth:
            break
    _, expression = _expression(code[:place])
    # The bracket is one operand of several: the whole expression is set in brackets, not the last call of it.
    if len([*_operands(expression)]) > 1:
        return code, "", ""
    return code[: place + 1], code[place + 1 : end], code[end:]


def _expression(code: str) -> tuple[str, str]:
    """The beginning of a statement, and its expression; "" for the beginning where it has none to be set in brackets."""
    if code.startswith("return "):
        return "return ", code.removeprefix("return ")
    name, separator, expression = code.partition(" = ")
    return (name + separator, expression) if separator and "(" not in name else ("", code)


def _parts(text: str, sign: str) -> Iterator[str]:
    """Yields what a sign that stands in no bracket and no string separates."""
    depth, begin, quote = 0, 0, ""
    for place, each in enumerate(text):
        if quote:
            quote = "" if each == quote else quote
        # Brackets and signs inside a string separate nothing.
        elif each in "\"'":
            quote = each
        elif each in "([{":
            depth += 1
        elif each in ")]}":
            depth -= 1
        elif not depth and text.startswith(sign, place):
            yield text[begin:place]
            begin = place + len(sign)
    if text[begin:].strip():
        yield text[begin:]


def _operands(text: str) -> Iterator[str]:
    """Yields the operands of a sum, or else of a product, each but the first with its sign."""
    for signs in ((" + ", " - "), (" * ", " / ", " @ ")):
        found: list[str] = [text]
        for sign in signs:
            found = [
                piece if not number else f"{sign.strip()} {piece}"
                for each in found
                for number, piece in enumerate(_parts(each, sign))
            ]
        if len(found) > 1:
            yield from found
            return
    yield text


def typed(statements: Sequence[str], arguments: Sequence[str], wished: str) -> list[str]:
    """Returns the statements of a function with the type of what it returns, where a checker could not know it.

    What a module is called with and gives has no type, `nn.Module.__call__` being what it is.

    Args:
      statements: of the function, the last of them its return.
      arguments: names that stand for tensors.
      wished: what the tensor may be called that is returned.
    """
    # No checker is asked: mypy takes seconds, and what has a type is known from how each statement is written.
    known = dict.fromkeys(arguments, True)
    for each in ast.parse("\n".join(statements[:-1])).body:
        _learn(each, known)
    returned = statements[-1].removeprefix("return ")
    if not statements[-1].startswith("return ") or _is_typed(ast.parse(returned, mode="eval").body, known):
        return [*statements]
    first = _first_assignment([*statements[:-1]], returned) if returned not in arguments else None
    if first is not None:
        annotated = statements[first].replace(f"{returned} = ", f"{returned}: {TENSOR} = ", 1)
        return [*statements[:first], annotated, *statements[first + 1 :]]
    candidates = (wished, _called(returned), "output")
    name = next((each for each in candidates if each and each not in known), "output")
    while name in known:
        name = f"{name}_"
    return [*statements[:-1], f"{name}: {TENSOR} = {returned}", f"return {name}"]


def _first_assignment(statements: Sequence[str], name: str) -> int | None:
    """The number of the statement that a name is first bound by, None where that is no plain assignment in no block."""
    for each in ast.parse("\n".join(statements)).body:
        bound = {node.id for node in ast.walk(each) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        if name in bound:
            plain = isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name)
            return each.lineno - 1 if plain else None
    return None


def _called(expression: str) -> str:
    """The layer that gives a value, where its name says more than of what kind it is."""
    found = re.match(r"self\.(\w+)\([^()]*\)$", expression)
    return (
        found.group(1) if found and not re.match(r"(fc|conv|deconv|norm|embedding|block)\d*$", found.group(1)) else ""
    )


def _learn(statement: ast.stmt, known: dict[str, bool]) -> None:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                known.setdefault(target.id, _is_typed(statement.value, known))
            elif isinstance(target, ast.Tuple):
                for each in target.elts:
                    if isinstance(each, ast.Name):
                        known.setdefault(each.id, False)
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        known[statement.target.id] = True


def _is_typed(node: ast.expr, known: Mapping[str, bool]) -> bool:
    """Whether a type checker knows what an expression is."""
    if isinstance(node, (ast.Constant, ast.Tuple)):
        return True
    if isinstance(node, ast.Name):
        return known.get(node.id, False)
    if isinstance(node, ast.BinOp):
        return _is_typed(node.left, known) and _is_typed(node.right, known)
    if isinstance(node, ast.IfExp):
        return _is_typed(node.body, known) and _is_typed(node.orelse, known)
    if isinstance(node, ast.UnaryOp):
        return _is_typed(node.operand, known)
    if isinstance(node, ast.Subscript):
        return _is_typed(node.value, known)
    if isinstance(node, ast.Compare):
        return _is_typed(node.left, known) and all(_is_typed(each, known) for each in node.comparators)
    if isinstance(node, ast.Attribute):
        return (
            not isinstance(node.value, ast.Name)
            or node.value.id in ("self", "module")
            or known.get(node.value.id, False)
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        of = node.func.value
        if isinstance(of, ast.Name) and of.id in ("F", "torch", "like_tf"):
            return True
        return not (isinstance(of, ast.Name) and of.id in ("self", "module")) and _is_typed(of, known)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum"
