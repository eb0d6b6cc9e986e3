"""What a report shows: verdict, levels, first difference, causes, facts, coverage."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from parity.judge.result import Cause, Check, FirstDifference, Level, Result
from parity.mapping import Proposal
from parity.report.plain_table import PlainTable


def account(checks: Iterable[Check]) -> dict[str, int]:
    """Returns how many checks there are of each kind; each kind but the first two says little, or nothing, about a port."""
    found = list(checks)
    judged = [check for check in found if check.verdict != "not_run"]
    return {
        "compared": len(judged),
        "skipped": len(found) - len(judged),
        "all_zero": sum(1 for check in judged if check.size == 0.0 and not check.note),
        "constant": sum(1 for check in judged if check.constant and check.size > 0.0),
        "not_finite": sum(1 for check in judged if "not finite" in check.note),
        # A tensor smaller than its tolerance would be the same whatever the port made of it.
        "trivial": sum(1 for check in judged if 0.0 < check.size <= check.allowed),
    }


def accounting(result: Result) -> str:
    """Returns how many tensors the verdict rests on, how many say little, and how the sides repeat, in one sentence."""
    counts = account(check for level in result.levels.values() for check in level.checks)
    text = (
        f"compared {counts['compared']:,} tensors; skipped {counts['skipped']:,}; all zero {counts['all_zero']:,}; "
        f"constant {counts['constant']:,}; not finite {counts['not_finite']:,}; "
        f"smaller than their tolerance {counts['trivial']:,}"
    )
    if not result.repeats:
        return text
    if len(result.repeats) > 1 and not any(repeat.unequal for repeat in result.repeats):
        return f"{text}; runs of either side repeat bit for bit"
    return "; ".join([text, *(repeat.sentence for repeat in result.repeats)])


COLOURS = {"same": "green", "different": "red", "incomparable": "yellow", "not_run": "dim"}
LEVEL_NUMBERS = {"function": 1, "float32": 2, "trajectory": 3, "mixed": 4}
LEVELS_IN_ORDER = tuple(LEVEL_NUMBERS)
RUN_TITLES = {
    "fresh": "as the optimizers start",
    "init": "before training",
    "lockstep": "",
    "free": "free run",
    "train": "train()",
}
WORST = 10  # tensors of a level: what a terminal has room for


def show_levels(result: Result) -> Group:
    """Shows who was compared, and the verdict of each level with what it rests on."""
    sides = Table.grid(padding=(0, 2))
    sides.add_row("reference", Text(who(result.reference)))
    sides.add_row("candidate", Text(who(result.candidate)))
    table = PlainTable("level", "verdict", "evidence")
    for level in result.levels.values():
        style = COLOURS[level.verdict]
        table.add_row(
            Text(f"{LEVEL_NUMBERS[level.name]} {level.name}", "dim" if level.verdict == "not_run" else ""),
            Text(level.verdict.replace("_", " "), style),
            Text(level.reason, "dim" if level.verdict == "not_run" else ""),
        )
    return Group(sides, Text(), table)


def show_worst(level: Level) -> Group:
    """Shows the tensors of a level with the largest ratios of difference to tolerance."""
    judged = [check for check in level.checks if check.verdict != "not_run"]
    table = PlainTable("step", "tensor", "of tolerance", "of scale", "verdict")
    for check in sorted(judged, key=lambda check: check.multiple, reverse=True)[:WORST]:
        table.add_row(
            str(check.step),
            Text(name_of(check, level)),
            f"{check.multiple:.2g}",
            f"{check.of_scale:.2g}",
            Text(check.verdict, COLOURS[check.verdict]),
        )
    return Group(Text(f"Worst tensors of level {level.name}", "bold"), table)


def show_mapping(pairs: list[tuple[str, str, str, str]]) -> PlainTable:
    """Shows which variable became which, by which transform, and how that was decided."""
    table = PlainTable("reference", "candidate", "transform", "decided")
    for pair in pairs:
        table.add_row(*(Text(part) for part in pair))
    return table


def show_proposals(proposals: Sequence[Proposal]) -> PlainTable:
    """Shows what variables may become, how sure that is, and what speaks for it."""
    table = PlainTable("reference", "candidate", "transform", "confidence", "agreement")
    for each in proposals:
        told = ", ".join(f"{what} {score:.2f}" for what, score in each.scores.items())
        table.add_row(
            Text(each.reference),
            Text(" + ".join(each.candidate)),
            Text(each.transform),
            Text(f"{each.confidence:.2f}"),
            Text(told),
        )
    return table


def print_trimmed(console: Console, *parts: RenderableType) -> None:
    """Prints without the blanks that pad a table's lines to its width: nothing that a file or a diff should hold."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    console.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def name_of(check: Check, level: Level) -> str:
    """Returns a tensor's name, and the run it belongs to where that is not the level's usual one."""
    run = RUN_TITLES.get(check.run, check.run) if any(other.run == "lockstep" for other in level.checks) else ""
    return f"{check.key}, {run}" if run else check.key


def who(facts: dict[str, Any]) -> str:
    """Returns how many towers or ranks of which framework a side is."""
    # A side with towers calls them so; facts of older or other traces may have neither.
    count, noun = (facts["towers"], "tower") if "towers" in facts else (facts.get("ranks", "?"), "rank")
    return f"{count} {noun}{'' if count == 1 else 's'}, {facts.get('framework', 'unknown framework')}"


# Who they are stands at the top of the report.
NOT_A_DIFFERENCE = ("side", "producer", "framework", "flags", "devices", "device", "slots", "counters_after")
SET_BY_SCHEDULES = ("optimizer.learning_rate", "optimizer.initial_lr")
SAME_THING = {"lr": "learning_rate", "eps": "epsilon", "nesterov": "use_nesterov"}


def show_facts(result: Result, everything: bool = False) -> Group | None:
    """Shows the facts in which the sides differ, or all; None where there are none."""
    one, other = flat(result.reference), flat(result.candidate)
    names = sorted({*one, *other}) if everything else differing(one, other)
    if not names:
        return None
    table = PlainTable("fact", "reference", "candidate")
    for name in names:
        table.add_row(Text(name), Text(plain(one.get(name))), Text(plain(other.get(name))))
    return Group(Text("All facts" if everything else "Facts that differ", "bold"), table)


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Returns the names of flat facts that both sides have and that differ, and of optimizer settings that one lacks."""
    names = [name for name in sorted({*one, *other}) if name.split(".")[0] not in NOT_A_DIFFERENCE]
    # A setting that one optimizer lacks is a difference; any other fact that one side does not have is merely not
    # recorded, and a rate that a schedule sets is none of the optimizer's settings but in the trace of each step.
    settings = [name for name in names if name.startswith("optimizer.") and name not in SET_BY_SCHEDULES]
    shared = [name for name in names if (name in one and name in other) or (name in settings and _on(name, one, other))]
    return [name for name in shared if _meaning(name, one.get(name)) != _meaning(name, other.get(name))]


def _on(name: str, *facts: dict[str, Any]) -> bool:
    """Whether an optimizer that has a setting has it on: off, as torch's `maximize`, it is as good as lacking."""
    return any(each.get(name) not in (None, False, 0) for each in facts)


def _meaning(name: str, value: Any) -> Any:
    # The frameworks name one optimizer differently: AdamOptimizer, torch_ddp.like_tf.optim.adam.Adam.
    named = name == "optimizer.name" and isinstance(value, str)
    return value.rpartition(".")[2].removesuffix("Optimizer") if named else value


def flat(facts: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns facts without tables in them, e.g. ``optimizer.name``; settings that are one thing get one name."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        text = prefix + (SAME_THING.get(name, name) if prefix == "optimizer." else name)
        if isinstance(value, dict):
            found.update(flat(value, f"{text}."))
        elif text == "optimizer.betas" and isinstance(value, list) and len(value) == 2:
            # torch's name for what TensorFlow has two settings for.
            found.update({f"{prefix}beta1": value[0], f"{prefix}beta2": value[1]})
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


LATER = "and then"  # the term of the row that counts what differs behind the first difference
HEADINGS = {"different": "First difference", "incomparable": "First tensor that cannot be compared"}
ADVICE = (
    (
        "not finite, on both sides",
        "neither side's numbers mean anything from here on: look for a division by zero, a log of "
        "zero or an overflow at this step, or run fewer steps with --steps",
    ),
    ("not finite", "only one side breaks down here: look for an epsilon, a clip or a mask that the other side has"),
    (
        "has no such tensor",
        "have both sides return it under one name, or match the names in the case's [mapping] tables",
    ),
    ("has no step", "record both sides with as many steps"),
)


def show_first_difference(level: Level, first: FirstDifference) -> Group:
    """Shows the first tensor that is not the same: its place, both values, the error and the tolerance."""
    check = first.check
    style = COLOURS[check.verdict]
    heading = Text.assemble(
        (HEADINGS[check.verdict], f"bold {style}"), f": step {check.step}, ", (name_of(check, level), "bold")
    )
    rows = _rows(level, first)
    if rows.row_count == 0:
        return Group(heading)
    return Group(heading, Padding(rows, (0, 0, 0, 2)))


def headings(causes: Sequence[Cause], first: FirstDifference | None) -> list[tuple[str, Cause]]:
    """Returns every cause under its heading: those of the first difference, and then those of others.

    Args:
      causes: best first.
      first: the first difference; None where all of them are of one.
    """
    own = [cause for cause in causes if first is None or cause.is_of(first)]
    others = [cause for cause in causes if cause not in own]
    told = [("Or" if place else "Cause", cause) for place, cause in enumerate(own)]
    return told + [(f"Further, of {_where(cause)}", cause) for cause in others]


def _where(cause: Cause) -> str:
    return f"{cause.explains.key} at step {cause.explains.step}" if cause.explains else "another tensor"


def show_causes(causes: Sequence[Cause], first: FirstDifference | None = None) -> Group:
    """Shows every cause with its evidence, what it explains and its fix, best first; those of other differences last."""
    shown: list[RenderableType] = []
    for place, (heading, cause) in enumerate(headings(causes, first)):
        shown += [Text()] if place else []
        shown.append(Text.assemble((heading, "bold"), f": {cause.title}"))
        shown.append(Padding(Text(cause.evidence), (0, 0, 0, 2)))
        if cause.explains:
            shown.append(Padding(Text.assemble(("explains: ", "bold"), cause.explains.sentence), (0, 0, 0, 2)))
        shown.append(Padding(Text.assemble(("fix: ", "bold green"), cause.fix), (0, 0, 0, 2)))
    return Group(*shown)


def first_rows(level: Level, first: FirstDifference) -> list[tuple[str, str]]:
    """Returns what there is to say of a first difference, as pairs of a term and its text."""
    check, worst = first.check, first.worst
    rows: list[tuple[str, str]] = []
    if check.note:
        rows.append(("what", check.note))
    if first.where:
        rows.append(("where", first.where))
    sides = zip(("in the reference", "in the port"), first.lines, strict=True)
    rows += [(side, line.shown) for side, line in sides if line is not None]
    if worst:
        at = f"  at {list(worst.index)}" if worst.index else ""
        rows += [("reference", f"{worst.reference:.9g}{at}"), ("candidate", f"{worst.candidate:.9g}")]
        if check.allowed > 0:
            rows.append(("error", f"{worst.max_abs:.3g} absolute, {worst.max_rel:.2g} relative, {worst.ulp:.3g} ulp"))
    if check.allowed > 0:
        rows.append(("whole tensor", f"{check.difference:.3g} absolute, {check.of_scale:.2g} relative to the scale"))
        rows.append(("tolerance", f"{check.allowed:.3g}; the error is {check.multiple:.3g} times the tolerance"))
    advice = _advice(check)
    if advice:
        rows.append(("do", advice))
    others = sum(1 for other in level.checks if other.verdict == check.verdict) - 1
    if others:
        tensors, verb = ("tensors", "") if others > 1 else ("tensor", "s")
        what = f"also differ{verb}" if check.verdict == "different" else "cannot be compared either"
        rows.append((LATER, f"{others:,} later {tensors} {what}"))
    return rows


def _rows(level: Level, first: FirstDifference) -> Table:
    table = Table.grid(padding=(0, 2))
    for term, text in first_rows(level, first):
        table.add_row(term, Text(text, "dim" if term == LATER else ""))
    return table


def _advice(check: Check) -> str:
    return next((advice for part, advice in ADVICE if part in check.note), "")
