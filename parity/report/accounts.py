"""Says what a verdict rests on: how many tensors, how many of them say little, and whether the sides repeat themselves."""

from collections.abc import Iterable

from parity.judge.result import Check, Result


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
        "trivial": sum(1 for check in judged if 0.0 < check.size <= check.allowed),
    }


def accounting(result: Result) -> str:
    """Returns how many tensors the verdict rests on, how many say little, and how the sides repeat, in one sentence."""
    counts = account(check for level in result.levels.values() for check in level.checks)
    text = (
        f"compared {counts['compared']:,} tensors; skipped {counts['skipped']:,}; all zero {counts['all_zero']:,}; "
        f"constant {counts['constant']:,}; not finite {counts['not_finite']:,}; "
        f"smaller than their own allowance {counts['trivial']:,}"
    )
    if not result.repeats:
        return text
    if len(result.repeats) > 1 and not any(repeat.unequal for repeat in result.repeats):
        return f"{text}; runs of either side repeat bit for bit"
    return "; ".join([text, *(repeat.sentence for repeat in result.repeats)])
