"""What a script itself calls things, and where it makes them."""

import re
from typing import Any

from parity.port.source.code import identifier
from parity.port.source.functions import Names
from parity.port.tower.ops import Op
from parity.trace import RecordedGraph

ASSIGNED = re.compile(r"^([A-Za-z_]\w*)\s*(?:=|\+=)(?!=)")


def names_of(graph: RecordedGraph) -> Names:
    """Returns where names come from for the ops of a graph."""

    def frame(op: Op) -> list[Any] | None:
        numbers = graph.callers.get(op.name)
        return graph.frames[numbers[-1]] if numbers else None

    def suggested(op: Op) -> str:
        found = frame(op)
        assigned = ASSIGNED.match(str(found[3])) if found else None
        return identifier(assigned.group(1)) if assigned else ""

    def where(op: Op) -> str:
        found = frame(op)
        return f"{found[0]}:{found[1]}" if found else ""

    return Names(suggested, where)
