"""Which mutants do not count, for no test can tell them from what was there: by these rules, and by no other."""

import ast
import re
from functools import cache
from pathlib import Path

import tomllib

from mutation.draw import Mutant

LISTED = Path(__file__).with_name("equivalent.toml")
PLACE = ("function", "source", "before", "after")  # beside the path, what tells a change from every other
RULES = {
    "same value": "for all that callers can pass the value, or the effect, is the same",
    "order": "a number is only compared with others that the project itself sets, and its place among them stays",
    "unreachable": "no input reaches the place: what stands before it raises, or returns, in every case",
    "cost": "only seconds or memory change: the size of a cache, of a piece that is read at once, a pause between two looks",
}


@cache
def listed() -> list[dict[str, str]]:
    """Returns the changes that are listed.

    Raises:
      ValueError: for one without a reason, or by a rule that is none of `RULES`.
    """
    entries: list[dict[str, str]] = tomllib.loads(LISTED.read_text())["mutant"]
    for entry in entries:
        if not entry.get("reason") or entry.get("rule") not in RULES:
            raise ValueError(
                f"{LISTED.name}: expected a reason and a rule ({', '.join(RULES)}), got {entry}. Give both, or test it."
            )
    return entries


def is_equivalent(mutant: Mutant) -> bool:
    """Returns whether a mutant is listed, or takes an assertion of ours away."""
    return _is_assertion(mutant) or any(
        mutant.path == entry["path"] and all(getattr(mutant.site, name) == entry[name] for name in PLACE)
        for entry in listed()
    )


# "strict=True" stands where two lists are of one length by construction: an assertion, and like `assert` not changed. Users'
# mistakes raise an error of their own before.
def _is_assertion(mutant: Mutant) -> bool:
    site = mutant.site
    if site.kind == "constant" and site.before == "True":
        return re.search(r"\bstrict=True\b", site.source) is not None and site.source.count("True") == 1
    if site.kind != "argument" or not site.before.startswith("zip("):
        return False
    call = ast.parse(site.before, mode="eval").body
    assert isinstance(call, ast.Call)
    kept = [keyword for keyword in call.keywords if keyword.arg != "strict"]
    return len(kept) < len(call.keywords) and f"({ast.unparse(ast.Call(call.func, call.args, kept))})" == site.after
