"""A page for each rule, from its own text: what the code does, what it means under DDP, the line of the port.

`python -m parity.scan.rule_pages docs` writes them, and the list, into the folder of the documentation.
"""

import sys
from pathlib import Path

from parity.scan.rules import SCAN_RULES, Rule
from parity.scan.rules.table import FAMILIES_OF_RULES, NOT_FROM_SOURCE


def page_as_markdown(rule: Rule) -> str:
    """Returns the page of a rule."""
    decided = (
        "It is decided from the source."
        if rule.decided
        else "The source alone does not decide it: record the script (`parity record`)."
    )
    lines = [
        f"# {rule.id} {rule.name}",
        "",
        f"*{rule.severity.word}*: {rule.title}. {decided}",
        "",
        "## What the code does",
        "",
        rule.does,
        "",
        "## What it means under DistributedDataParallel",
        "",
        rule.under_ddp,
        "",
        "## In the port",
        "",
        rule.port,
    ]
    if rule.hazards:
        names = ", ".join(f"`{name}`" for name in rule.hazards)
        lines += ["", "## What a recording says", "", f"`parity record` names it {names}."]
        if rule.only_found:
            lines += ["", f"A scan may find it where a recording names nothing. {rule.only_found}"]
        if rule.only_recorded:
            lines += ["", f"A recording may name it where a scan finds nothing. {rule.only_recorded}"]
    lines += ["", "## Leaving it out", "", f"`# parity: ignore[{rule.id}]` on the line, or `--baseline`."]
    return "\n".join(lines) + "\n"


def list_as_markdown() -> str:
    """Returns the tables of all rules, and of what only a recording names."""
    tables = []
    for family, rules in FAMILIES_OF_RULES.items():
        rows = [
            f"| [{rule.id}](rules/{rule.id}.md) {rule.name} | {rule.severity.word} | {rule.title} |" for rule in rules
        ]
        tables.append("\n".join([f"## {family}", "", "| rule | level | what the code does |", "|---|---|---|", *rows]))
    rows = [f"| `{name}` | {reason} |" for name, reason in NOT_FROM_SOURCE.items()]
    heading = ["## What only a recording names", "", "| hazard | why no rule has it |", "|---|---|"]
    return "\n\n".join([*tables, "\n".join([*heading, *rows])]) + "\n"


def rule_pages(folder: Path) -> dict[Path, str]:
    """Returns what the list and the page of each rule hold, by file; what the list begins with stays as it is.

    Args:
      folder: of the documentation.
    """
    begins = (folder / "rules.md").read_text(encoding="utf-8").partition("\n## ")[0]
    written = {folder / "rules.md": f"{begins}\n{list_as_markdown()}"}
    return written | {folder / "rules" / f"{rule.id}.md": page_as_markdown(rule) for rule in SCAN_RULES.values()}


def write_rule_pages(folder: Path) -> None:
    """Writes the list and the pages, and removes those of rules that are gone."""
    written = rule_pages(folder)
    (folder / "rules").mkdir(exist_ok=True)
    for path in set((folder / "rules").glob("*.md")) - set(written):
        path.unlink()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_rule_pages(Path(sys.argv[1]))
