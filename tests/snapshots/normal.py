"""Leaves out of a result and of a report what another machine, processor or day changes, by rules for all cases alike.

Numbers of the size of rounding, and those that are measured in it, are masked; others keep three digits. Words, names,
places, whole numbers, verdicts and settings, an epsilon of 1e-8 among them, stay as they are.
"""

import json
import re
from pathlib import Path
from typing import Any

MASK = "#"
TINY, HUGE = 1e-5, 1e6  # beyond these a number is rounding, or something over rounding
# Keys of the JSON whose values are multiples of what rounding does, where it is largest, or the host's.
MEASURED = {"worst_step", "worst_multiple", "worst_of_scale", "ulp", "allowed", "unequal", "wanders"}
HOST = {"cpu_capability", "mkldnn", "python", "numpy", "threads", "OMP_NUM_THREADS"}
ORIGIN = {"format", "provenance"}  # which day, host and commit
NUMBER = r"-?\d(?:\d|,\d)*(?:\.\d+)?(?:e[-+]?\d+)?"
DECIMAL = r"(?<![\w.])-?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)(?![\w.]*\w)"
BEFORE_ROUNDING = (
    "of the tolerance|of the scale|relative to the scale|of what half precision|times as far as rounding|"
    "times what storing|ulp"
)
# Sentences that say how large rounding is; a blank in them is any space, for reports are wrapped.
PHRASES = [
    (r"\d+\.\d+\.\d+(?:\+\w+)?", "VERSION"),
    (rf"{NUMBER} (s|seconds|MB|KB)\b", rf"{MASK} \1"),
    (
        r"runs of either side repeat bit for bit",
        "reference: runs repeat bit for bit; candidate: runs repeat bit for bit",
    ),
    (r"(reference|candidate): (?:runs repeat bit for bit|run-to-run difference [^)]*\))", rf"\1: repeats {MASK}"),
    (rf"candidate {NUMBER}, reference {NUMBER}(?= times the other)", f"candidate {MASK}, reference {MASK}"),
    (rf"{NUMBER}(?= (?:{BEFORE_ROUNDING})\b)", MASK),
    (rf"\(orders seen: {NUMBER}\)", f"(orders seen: {MASK})"),
    (rf"tolerance {NUMBER}; the error is {NUMBER}", f"tolerance {MASK}; the error is {MASK}"),
    (rf"{NUMBER} times what rounding allows, where it was {NUMBER} times", f"{MASK} times what rounding allows"),
    (rf"\({NUMBER}(?=, limit)", f"({MASK}"),
    (rf"false alarms: {NUMBER} of", f"false alarms: {MASK} of"),
    (rf"\({NUMBER}%, 95% interval {NUMBER}% to {NUMBER}%\)", f"({MASK})"),
    (rf"calls {NUMBER}% of right ports different \(at most {NUMBER}%\)", f"calls {MASK} of right ports different"),
    (rf"(?m)^((?:\S+\.)?(?:{'|'.join(sorted(HOST))}) )[^|\n]*$", rf"\1{MASK}"),  # a line of the table of facts
    (r"(Worst tensors of level \w+\n)(?:.+\n)*", rf"\1{MASK}\n"),
]
PATTERNS = [(re.compile(pattern.replace(" ", r"\s")), replacement) for pattern, replacement in PHRASES]


def normal_text(text: str, folder: Path, root: Path) -> str:
    """Returns a report, or a sentence of a result, without what differs between machines, and without its columns."""
    for path, name in ((folder, "FOLDER"), (root, "ROOT")):
        text = text.replace(str(path), name)
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return re.sub(DECIMAL, lambda found: digits(float(found.group())), text)


def normal_result(result: Any, folder: Path, root: Path) -> str:
    """Returns a result's JSON, a line for each of the dictionaries of a list that have the same keys."""
    return json.dumps(_normal(result, folder, root), indent=1, ensure_ascii=False)


def _normal(value: Any, folder: Path, root: Path) -> Any:
    if isinstance(value, dict):
        value = {key: each for key, each in value.items() if key not in ORIGIN}
        masked = HOST | MEASURED | ({"where"} if "wanders" in value else set())
        return {key: MASK if key in masked else _normal(each, folder, root) for key, each in value.items()}
    if isinstance(value, list):
        return _table([_normal(each, folder, root) for each in value])
    if isinstance(value, str):
        return normal_text(value, folder, root)
    return setting(value) or digits(value) if isinstance(value, float) else value


def _table(values: list[Any]) -> list[Any]:
    keys = {tuple(value) if isinstance(value, dict) else None for value in values}
    flat = all(
        not isinstance(each, dict | list) for value in values if isinstance(value, dict) for each in value.values()
    )
    if len(keys) != 1 or keys == {None} or not flat:
        return values
    return [" | ".join(keys.pop()), *(" | ".join(map(str, value.values())) for value in values)]


def setting(number: float) -> str:
    """Returns a number below rounding as somebody has set it, 1e-08 of an epsilon; "" for what was measured.

    What is measured has one digit alone in one of 100,000 cases, for a result's JSON has all its digits.
    """
    short = f"{number:.0e}"
    return short if 0 < abs(number) < TINY and f"{number:.5e}" == f"{float(short):.5e}" else ""


def digits(number: float) -> str:
    """Returns a number to three digits, rounded by way of six so that 0.125 and its neighbours are the same."""
    if number != number or abs(number) == float("inf"):
        return str(number)
    if abs(number) >= HUGE:
        return "huge"
    return f"{float(f'{number:.6g}'):.3g}" if abs(number) >= TINY else "0"
