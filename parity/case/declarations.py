"""Checks of [expect] that need other keys of the case."""

from typing import Any

from parity.case.errors import Problem, shown

SAYS_WHO = ("why", "by")
OF_THE_OPTIMIZER = ("learning_rate_factor", "weight_decay")


def declarations(data: dict[str, Any]) -> list[Problem]:
    """Returns what is impossible in a parsed case's [expect]; keys of a wrong type are left to the other checks."""
    expect = data.get("expect")
    if not isinstance(expect, dict) or not expect:
        return []
    declared = [key for key in expect if key not in SAYS_WHO]
    if not declared:
        write = (
            "Write what the port does otherwise (combine, learning_rate_factor, loss_factor, weight_decay), or nothing."
        )
        return [Problem(("expect",), "a difference", "none", write)]
    return [*_nothing(expect, data), *_not_described(expect, data), *_another_decay(expect, data)]


def _nothing(expect: dict[str, Any], data: dict[str, Any]) -> list[Problem]:
    problems = []
    if expect.get("combine") in ("mean", "sum") and expect["combine"] == data.get("combine"):
        other = "sum" if expect["combine"] == "mean" else "mean"
        expected = f'"{other}", since the towers do what [expect] declares of the port'
        problems.append(Problem(("expect", "combine"), expected, shown(expect["combine"]), "Leave it out."))
    for key in ("learning_rate_factor", "loss_factor"):
        if type(expect.get(key)) in (int, float) and expect[key] == 1:
            problems.append(Problem(("expect", key), "a factor other than 1", "1", "Leave it out."))
    return problems


def _not_described(expect: dict[str, Any], data: dict[str, Any]) -> list[Problem]:
    if "optimizer" in data:
        return []
    expected = "an [optimizer] table, from which the reference is built with the difference in it"
    return [
        Problem(("expect", key), expected, "an optimizer of its own", "Describe the towers' optimizer in [optimizer].")
        for key in OF_THE_OPTIMIZER
        if key in expect
    ]


def _another_decay(expect: dict[str, Any], data: dict[str, Any]) -> list[Problem]:
    optimizer = data.get("optimizer")
    there = optimizer.get("weight_decay") if isinstance(optimizer, dict) else None
    more = expect.get("weight_decay")
    if not isinstance(there, dict) or not isinstance(more, dict) or there.get("only", "") == more.get("only", ""):
        return []
    expected = f"only = {shown(there.get('only', ''))} as in optimizer.weight_decay, which it adds to"
    got = shown(more.get("only", ""))
    return [Problem(("expect", "weight_decay", "only"), expected, got, "Write the same weights in both.")]
