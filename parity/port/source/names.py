"""What a script itself calls things, and where it makes them."""

import ast
import re

from parity.port.source.code import identifier
from parity.port.source.functions import Names
from parity.port.tower.ops import Op
from parity.port.tower.regions import Frame
from parity.trace import RecordedGraph

ASSIGNED = re.compile(r"^([A-Za-z_]\w*)\s*(?:=|\+=)(?!=)")
SEVERAL_ASSIGNED = re.compile(r"^\(?([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)+)\)?\s*=(?!=)")


def names_of(graph: RecordedGraph) -> Names:
    """Returns where names come from for the ops of a graph."""
    known = [Frame(str(file), int(line), str(function), str(text)) for file, line, function, text in graph.frames]

    def frames(op: Op) -> list[Frame]:
        return [known[number] for number in graph.callers.get(op.name, ())]

    def suggested(op: Op) -> str:
        inner: Frame | None = None
        for frame in reversed(frames(op)):
            assigned = ASSIGNED.match(frame.text) or _of_several(frame.text, inner.text if inner else "")
            if _ends_a_statement(frame.text):
                break
            if inner is not None and not _only_calls(frame.text, inner.function):
                break
            if assigned:
                return identifier(assigned.group(1))
            if not frame.text.startswith("return "):
                break
            inner = frame
        return ""  # what a function returns is what its caller assigns; of anything else nothing is known

    def where(op: Op) -> str:
        found = frames(op)
        return f"{found[-1].file}:{found[-1].line}" if found else ""

    inner = _inside_of_statements(graph)

    def assigned(op: Op) -> str:
        return suggested(op) if op.name not in inner else ""

    return Names(suggested, where, frames, assigned)


def _inside_of_statements(graph: RecordedGraph) -> set[str]:
    """The ops that another op of the very same statement takes from: what is assigned there is not what they give."""
    found = set()
    for node in graph.nodes:
        own = graph.callers.get(node["name"])
        for each in node.get("input", ()) if own else ():
            name = each.partition(":")[0].lstrip("^")
            if graph.callers.get(name) == own:
                found.add(name)
    return found


def _ends_a_statement(text: str) -> bool:
    """Whether a line closes brackets of lines before it, as `padding="SAME")` does: what Python 3.7 says of a long call."""
    return sum(map(text.count, ")]}")) > sum(map(text.count, "([{"))


def _only_calls(text: str, function: str) -> bool:
    """Whether a statement assigns or returns what a function gives, and nothing that is computed of it."""
    target, _, value = text.partition(" = ")
    called = re.match(r"[\w.]*", value if value and "(" not in target else text.removeprefix("return "))
    # A function may go by another name there, but what a library is called with is not what it gives.
    return called is not None and (
        function.startswith("__") or called[0].rpartition(".")[2] == function or "." not in called[0]
    )


def _of_several(text: str, returned: str) -> "re.Match[str] | None":
    """Which of several names that are assigned at once is that of what a function computes in its return."""
    several = SEVERAL_ASSIGNED.match(text)
    if several is None or not returned:
        return None
    try:
        value = ast.parse(returned.removeprefix("return "), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):  # only a part of the statement, or the text of an older Python
        return None
    names = [each.strip() for each in several.group(1).split(",")]
    computed = [place for place, each in enumerate(getattr(value, "elts", ())) if not isinstance(each, ast.Name)]
    if len(computed) != 1 or computed[0] >= len(names):
        return None
    return re.match(r"(\w+)", names[computed[0]])
