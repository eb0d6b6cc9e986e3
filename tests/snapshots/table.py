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


def replayed(script: str, right: str, wrong: str, *before: str) -> Row:
    """A script, recorded with its shadow, and replayed on a right port and on a wrong one, each by options of `replay`."""
    replay = f"replay {script}.trace --map {script}.toml --torch {script}_torch:Model"
    recorded = (f"record --out {script}.trace -- ../{script}.py", *before)
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
    "mixed": Row(
        "tests/cases",
        (
            "run square --levels 1,4 --opt-level O2 --half-dtype float16",
            "run square --levels 1,4 --opt-level O3 --half-dtype bfloat16",
        ),
    ),
    "batch_norm": Row(
        "tests/cases",
        (
            "run normed",
            Edit("normed/case.toml", '"unordered"', '"first"'),  # what a race leaves is another value every day
            Edit("normed/case.toml", "model_torch:Model", "model_torch:slower"),
            "run normed",
        ),
    ),
    "synchronised": Row("tests/cases", ("run joined",)),
    "sparse": Row("tests/cases", ("run rows",)),
    "several": Row(
        "tests/cases",
        (
            "run duel --steps 3 --levels 1,2,3",
            Edit("duel/case.toml", "model_torch:loss", "model_torch:quartered_alone"),
            "run duel --steps 3",
        ),
    ),
    "uneven": Row("tests/cases", ("run ragged", "run parts", "run served")),
    "ill_conditioned": Row("tests/cases", ("run biased", "run tied")),
    "clipped": Row(
        "examples",
        (
            "run text_lstm --steps 3",
            Edit("text_lstm/model_torch.py", "/ weights.sum()", "/ weights.numel()"),
            "run text_lstm --steps 3",
        ),
    ),
    "summed": Row("examples", ("run summed_towers --steps 3",)),
    "convolved": Row("examples", ("run image_lrn --steps 3", "run digits_convnet --steps 2")),
    "replayed": replayed(
        "monitored",
        "--loss monitored_torch:loss --optimizer monitored_torch:optimizer",
        "--loss monitored_torch:loss --optimizer monitored_torch:optimizer_without_clipping",
    ),
    "replayed_sections": replayed(
        "two_optimizers",
        "--loss DAdam=two_optimizers_torch:d_loss --loss GAdam=two_optimizers_torch:g_loss",
        "--loss DAdam=two_optimizers_torch:d_loss --loss GAdam=two_optimizers_torch:doubled_g_loss",
        "show two_optimizers.trace",
    ),
}
