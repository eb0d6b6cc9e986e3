"""Shows what is known of the two sides beside their numbers: what differs between them, or all of it."""

from typing import Any

from rich.console import Group
from rich.text import Text

from parity.judge.result import Result
from parity.report.tables import plain_table

# Who they are stands at the top of the report.
NOT_A_DIFFERENCE = ("side", "producer", "framework", "flags", "devices", "device", "slots", "counters_after")
SAME_THING = {"lr": "learning_rate", "eps": "epsilon", "nesterov": "use_nesterov"}


def show_facts(result: Result, everything: bool = False) -> Group | None:
    """Shows the facts in which the sides differ, or all; None where there are none."""
    one, other = flat(result.reference), flat(result.candidate)
    names = sorted({*one, *other}) if everything else differing(one, other)
    if not names:
        return None
    table = plain_table("fact", "reference", "candidate")
    for name in names:
        table.add_row(Text(name), Text(plain(one.get(name))), Text(plain(other.get(name))))
    return Group(Text("All facts" if everything else "Facts that differ", "bold"), table)


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Returns the names of flat facts that both sides have and that differ, and of optimizer settings that one lacks."""
    names = [name for name in sorted({*one, *other}) if name.split(".")[0] not in NOT_A_DIFFERENCE]
    shared = [name for name in names if (name in one and name in other) or name.startswith("optimizer.")]
    return [name for name in shared if _meaning(name, one.get(name)) != _meaning(name, other.get(name))]


def _meaning(name: str, value: Any) -> Any:
    # The frameworks name one optimizer differently: AdamOptimizer, torch_ddp.like_tf.optim.adam.Adam.
    return value.rpartition(".")[2].removesuffix("Optimizer") if name == "optimizer.name" and value else value


def flat(facts: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns facts without tables in them, e.g. ``optimizer.name``; settings that are one thing get one name."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        text = prefix + (SAME_THING.get(name, name) if prefix == "optimizer." else name)
        if isinstance(value, dict):
            found.update(flat(value, f"{text}."))
        else:
            found[text] = value
    return found


def plain(value: Any) -> str:
    """Returns a fact as a person writes it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, list):
        return ", ".join(plain(part) for part in value) or "none"
    return str(value)
