"""Whether a scan and a recording of one script name the same hazards, or the pages of the rules say why not."""

from collections.abc import Iterable

from parity.scan.rules import NOT_FROM_SOURCE, SCAN_RULES


def disagreements(recorded: Iterable[str], found: Iterable[str]) -> list[str]:
    """Returns what one of them names and the other does not, where no page of a rule speaks of it.

    Args:
      recorded: names of hazards.
      found: identifiers of rules.
    """
    recorded, rules = set(recorded), [SCAN_RULES[each] for each in sorted(set(found))]
    of_rules = {name for rule in rules for name in rule.hazards}
    may_differ = {name for rule in SCAN_RULES.values() if rule.differs for name in rule.hazards}
    only_recorded = recorded - of_rules - may_differ - NOT_FROM_SOURCE.keys()
    only_found = [rule.id for rule in rules if rule.hazards and not recorded & {*rule.hazards} and not rule.differs]
    return [f"only recorded: {name}" for name in sorted(only_recorded)] + [f"only found: {rule}" for rule in only_found]
