"""The checks that look at several keys of a case, or at the files around it."""

import re
from pathlib import Path
from typing import Any

from parity.case.combinations import combinations, value_of
from parity.case.declarations import declarations
from parity.case.errors import CaseError, Problem
from parity.case.source import find_source
from parity.case.table import FUNCTION

FUNCTIONS = (
    ("batches",),
    ("tf", "tower"),
    ("tf", "optimizer"),
    ("torch", "model"),
    ("torch", "loss"),
    ("torch", "optimizer"),
    ("torch", "scheduler"),
    ("torch", "step"),
)


def cross_checks(data: dict[str, Any]) -> list[Problem]:
    """Returns the impossible combinations in a parsed case; keys of a wrong type are left to the other checks."""
    own = [*_whole_shards(data), *_optimizers(data), *_own_step(data)]
    return [*own, *combinations(data), *declarations(data)]


def missing_sources(data: dict[str, Any], directory: Path) -> list[Problem]:
    """Returns a problem for each "module:function" whose file or name does not exist."""
    problems = []
    for key in FUNCTIONS:
        spec = value_of(data, key)
        if not isinstance(spec, str) or not re.match(FUNCTION, spec):
            continue
        try:
            find_source(spec, directory)
        except CaseError as error:
            expected, _, rest = str(error).removeprefix("case: expected ").partition(", got ")
            got, _, write = rest.partition(". ")
            problems.append(Problem(key, expected, got, write))
    return problems


def _whole_shards(data: dict[str, Any]) -> list[Problem]:
    if value_of(data, ("tf", "uneven")) not in (None, "refuse"):
        return []
    size, towers, steps = data.get("batch_size"), data.get("towers"), _micro_batches(data)
    if type(size) is not int or type(towers) is not int or size < 1 or towers < 1 or size % (towers * steps) == 0:
        return []
    parts = towers * steps
    below, above = size // parts * parts, (size // parts + 1) * parts
    nearest = f"{below} or {above}" if below else str(above)
    if steps == 1:
        expected = f"a multiple of towers = {towers}, so that every tower gets as many examples"
        return [Problem(("batch_size",), expected, str(size), f"Write {nearest}, or another number of towers.")]
    expected = f"a multiple of towers = {towers} times accumulate = {steps}, so that every micro-batch is as large"
    return [Problem(("batch_size",), expected, str(size), f"Write {nearest}, or other numbers of them.")]


def _micro_batches(data: dict[str, Any]) -> int:
    steps = value_of(data, ("optimizer", "accumulate"))
    steps = steps.get("steps") if isinstance(steps, dict) else steps
    return steps if type(steps) is int and steps >= 1 else 1


def _optimizers(data: dict[str, Any]) -> list[Problem]:
    described = "optimizer" in data
    of_tf, of_torch = (value_of(data, (side, "optimizer")) is not None for side in ("tf", "torch"))
    if described and of_tf:
        write = "Leave [optimizer] out and write torch.optimizer too, or leave tf.optimizer out."
        return [Problem(("tf", "optimizer"), "either [optimizer] or an optimizer of its own", "both", write)]
    if described or (of_tf and of_torch):
        return []
    if not of_tf and not of_torch:
        write = "Write [optimizer] with name and learning_rate, or tf.optimizer and torch.optimizer."
        return [Problem(("optimizer",), "an optimizer", "none", write)]
    one, other = ("tf", "torch") if of_tf else ("torch", "tf")
    write = f"Write {other}.optimizer, or an [optimizer] table."
    return [Problem((other, "optimizer"), f"an optimizer beside {one}.optimizer", "none", write)]


def _own_step(data: dict[str, Any]) -> list[Problem]:
    if value_of(data, ("torch", "step")) is None:
        return []
    return [
        Problem(
            ("torch", "step"),
            f"no optimizer.{name} beside it, since what happens inside of the port's own step is not seen piece by piece",
            "both",
            f"Leave torch.step or optimizer.{name} out.",
        )
        for name in ("accumulate", "loss_scale")
        if value_of(data, ("optimizer", name)) is not None
    ]
