"""What a rule is, and what several of them ask of a program."""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from parity.scan.inventory.program import Code, Program, Use
from parity.scan.model.module import Function, Module
from parity.scan.model.repository import source_of
from parity.scan.result import Severity

CALLERS = 4  # callers of callers that a rule looks through


class Hit(NamedTuple):
    """One place that a rule is about.

    Fields:
      node: where.
      module: in which.
      message: what the code does there, in one sentence with its names.
      decided: whether the source decides it there; a note where it does not, whatever the rule's level.
      severity: where it is another than the rule's.
    """

    node: ast.AST
    module: Module
    message: str
    decided: bool = True
    severity: Severity | None = None

    def severity_of(self, rule: "Rule") -> Severity:
        """Returns the level of the finding."""
        return (self.severity or rule.severity) if self.decided else Severity.NOTE


@dataclass(frozen=True)
class Rule:
    """One rule, and one page of the docs.

    Attributes:
      id: stable, e.g. "TP101".
      name: in words with hyphens, e.g. "gradients-summed".
      severity: of its findings, but for those that say another, and those that the source does not decide: they are notes.
      title: what the code does, in a few words.
      does: the same in sentences, with what it leads to in TensorFlow.
      under_ddp: what it means for a port to DistributedDataParallel.
      port: the line of the port that does the same, or what to do.
      look: yields the places.
      decided: whether the source decides it; else a recording has to.
      hazards: names under which `parity record` reports it.
      for_one_tower: whether it is as true of a script with one tower; the others say how several are put together.
      only_found: why a recording may name none of the hazards where this finds something, "" where it names one.
      only_recorded: why a recording may name any of the hazards where this finds nothing, "" where this finds it.
    """

    id: str
    name: str
    severity: Severity
    title: str
    does: str
    under_ddp: str
    port: str
    look: Callable[[Code], Iterator[Hit]]
    decided: bool = True
    hazards: tuple[str, ...] = ()
    for_one_tower: bool = False
    only_found: str = ""
    only_recorded: str = ""


def linked(program: Program) -> list[Function]:
    """Returns the functions that a loop's own one leads to, its callers, and what these lead to."""
    return program.linked


def uses_in(functions: Iterable[Function]) -> Iterator[Use]:
    """Yields the calls in functions."""
    for function in functions:
        for call in function.calls:
            yield Use(call, function.module, function.module.resolved(call.func))


def each_once(hits: Iterable[Hit]) -> Iterator[Hit]:
    """Yields hits, one for each node: what is decided, and at the rule's level, before what is not."""
    by_node: dict[ast.AST, Hit] = {}
    for hit in hits:
        known = by_node.get(hit.node)
        if known is None or (hit.decided, hit.severity is None) > (known.decided, known.severity is None):
            by_node[hit.node] = hit
    yield from by_node.values()


def is_session_run(call: ast.Call) -> bool:
    """Whether a call runs a session."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "run"
        and "sess" in source_of(call.func.value).lower()
    )


def assigns(call: ast.Call, module: Module) -> bool:
    """Whether a call assigns to a variable: `tf.assign(v, ...)`, by whatever name, or a method of the variable."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else module.resolved(call.func)
    return name.removeprefix("tf.") in ("assign", "assign_add", "assign_sub")


def statement_of(node: ast.AST, module: Module) -> ast.AST:
    """Returns the statement that an expression is part of."""
    if isinstance(node, ast.stmt):
        return node
    return next((each for each in module.ancestors(node) if isinstance(each, ast.stmt)), node)


def block_of(node: ast.AST, module: Module) -> tuple[ast.AST, str]:
    """Returns what the statement of a node stands in, and which of its blocks: "body", "orelse", ..."""
    statement = statement_of(node, module)
    holder = module.parents.get(statement, module.tree)
    for name in ("body", "orelse", "finalbody", "handlers"):
        if statement in getattr(holder, name, ()):
            return holder, name
    return holder, ""
