"""The rows of docs/semantics.md: measured by tests, compared with the committed page, rewritten on demand."""

import os
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "semantics.md"
COMMAND = "REFRESH_SEMANTICS=all python -m pytest tests/torch_ddp/like_tf -m ''"
HEAD = f"""# TensorFlow 1 rules and where plain torch differs

Every row was measured by a test, in float64 unless it says otherwise: the reference is TensorFlow, the difference is
that of the plain torch form from it, as the largest absolute difference over the largest absolute value. The names in
the last column are in `torch_ddp.like_tf` and agree with TensorFlow to rounding; the same tests prove it.

This page is written by `{COMMAND}`, with both TensorFlows
at hand; `REFRESH_SEMANTICS=some` keeps the rows that the chosen tests do not measure.

| rule | TensorFlow 1 | plain torch | difference of plain torch | use |
|---|---|---|---|---|
"""


class SemanticsTable:
    """Collects the rows that the tests of one session measure."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}

    def add(self, rule: str, tensorflow: str, torch: str, difference: float | None, use: str) -> None:
        """Takes one row; fails when the committed page has no such row with the same text.

        Args:
            rule: what the row is about; unique.
            tensorflow: what TensorFlow does.
            torch: what the torch form does that a port would use without thinking.
            difference: the measured relative difference, or None where there are not two numbers to compare.
            use: the names to use, as in ``torch_ddp.like_tf``, separated by commas.
        """
        shown = "-" if difference is None else f"{difference:.1e}"
        names = ", ".join(f"`{name.strip()}`" for name in use.split(","))
        self._rows[rule] = f"| {rule} | {tensorflow} | {torch} | {shown} | {names} |"
        if not os.environ.get("REFRESH_SEMANTICS"):
            want = _without_number(self._rows[rule])
            have = {_without_number(row) for row in committed_rows()}
            assert want in have, f"docs/semantics.md is stale: no row {want}. Run: {COMMAND}"

    def write(self) -> None:
        """Writes the page from the rows of this session, by name of the rule."""
        keep = os.environ["REFRESH_SEMANTICS"] == "some" and PAGE.exists()
        kept = {_cells(row)[0]: row for row in committed_rows()} if keep else {}
        rows = {**kept, **self._rows}
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(HEAD + "".join(f"{rows[rule]}\n" for rule in sorted(rows, key=str.lower)))


def committed_rows() -> list[str]:
    """Returns the rows of the committed page, as lines."""
    lines = PAGE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    return [line for line in lines[start + 1 :] if line.startswith("|")]


def committed_names() -> set[str]:
    """Returns the names in the last column of the committed page."""
    return {name.strip(" `") for row in committed_rows() for name in _cells(row)[-1].split(",")}


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def _without_number(row: str) -> tuple[str, ...]:
    cells = _cells(row)
    return (*cells[:3], cells[4])
