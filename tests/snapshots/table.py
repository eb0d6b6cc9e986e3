"""The commands whose output is pinned: right ports and planted bugs, each row in a copy of its folder."""

from typing import NamedTuple


class Edit(NamedTuple):
    """Puts `new` in the place of `old` in a file, between two commands; at the file's end where `old` is empty."""

    file: str
    old: str
    new: str


class Row(NamedTuple):
    """A folder below the root, and what is done in a copy of it: commands of `parity`, `within` a folder, and edits."""

    folder: str
    steps: tuple[str | Edit, ...]
    fast: bool = False
    within: str = "."


def replayed(script: str, right: str, wrong: str) -> Row:
    """A script, recorded with its shadow, and replayed on a right port and on a wrong one, each by options of `replay`."""
    replay = f"replay {script}.trace --map {script}.toml --torch {script}_torch:Model"
    recorded = (f"record --out {script}.trace -- ../{script}.py", f"show {script}.trace")
    return Row("tests/legacy_scripts", (*recorded, f"{replay} {right}", f"{replay} {wrong}"), within="ports")


WHY = '\n[expect]\nwhy = "the new recipe"\nby = "ada"\nloss_factor = 2\n'
DOUBLED = """
plain = loss


def loss(model, **inputs):
    value, outputs = plain(model, **inputs)
    return 2 * value, outputs
"""

TABLE = {
    "golden": Row(
        "tests/cases",
        (
            "bless square",
            "run square --golden square/golden",
            Edit("square/model_torch.py", ".mean()", ".sum()"),
            "run square --golden square/golden --verbose",
        ),
        fast=True,
    ),
    "compared": Row(
        "tests/legacy_scripts",
        (
            "record --no-shadow --out one -- fed_rate.py",
            Edit("fed_rate.py", "0.7", "0.8"),
            "record --no-shadow --out other -- fed_rate.py",
            "compare one one",
            "compare one other",
            "compare one nowhere",
        ),
        fast=True,
    ),
    "expected": Row(
        "tests/cases",
        (Edit("square/case.toml", "", WHY), "run square", Edit("square/model_torch.py", "", DOUBLED), "run square"),
    ),
    "swapped": Row(
        "tests/cases",
        (
            "map square",
            Edit(
                "square/case.toml",
                "",
                '\n[mapping]\n"first/kernel" = "second.weight"\n"second/kernel" = "first.weight"\n',
            ),
            "map square",
            "run square",
        ),
    ),
}
