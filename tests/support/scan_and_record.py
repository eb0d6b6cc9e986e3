"""Whether a scan and a recording of one script name the same hazards, or the pages of the rules say why not."""

from collections.abc import Iterable, Iterator

from parity.scan.rules import NOT_FROM_SOURCE, SCAN_RULES


def disagreements(recorded: Iterable[str], found: Iterable[str]) -> list[str]:
    """Returns what one of them names and the other does not, where no page of a rule speaks of it.

    Args:
      recorded: names of hazards.
      found: identifiers of rules.
    """
    return [text for text, allowed in _differences(recorded, found) if not allowed]


def allowed_by_a_page(recorded: Iterable[str], found: Iterable[str]) -> list[str]:
    """Returns what one of them names and the other does not, and the page of a rule says that it may."""
    return [text for text, allowed in _differences(recorded, found) if allowed]


def _differences(recorded: Iterable[str], found: Iterable[str]) -> Iterator[tuple[str, bool]]:
    recorded, rules = set(recorded), [SCAN_RULES[each] for each in sorted(set(found))]
    of_rules = {name for rule in rules for name in rule.hazards}
    may_be_recorded = {name for rule in SCAN_RULES.values() if rule.only_recorded for name in rule.hazards}
    for name in sorted(recorded - of_rules):
        yield f"only recorded: {name}", name in may_be_recorded | {*NOT_FROM_SOURCE}
    for rule in rules:
        if rule.hazards and not recorded & {*rule.hazards}:
            yield f"only found: {rule.id}", bool(rule.only_found)
