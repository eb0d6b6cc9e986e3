"""All rules, by identifier."""

from collections.abc import Iterable, Mapping

from parity.scan.rules.batch_norms import NORM_RULES
from parity.scan.rules.gates import GATE_RULES
from parity.scan.rules.gradients import GRADIENT_RULES
from parity.scan.rules.losses import LOSS_RULES
from parity.scan.rules.missing_gradients import MISSING_RULES
from parity.scan.rules.optimizers import OPTIMIZER_RULES
from parity.scan.rules.programs import PROGRAM_RULES
from parity.scan.rules.rule import Rule
from parity.scan.rules.shards import SHARD_RULES
from parity.scan.rules.state import STATE_RULES


def _by_number(*modules: Iterable[Rule]) -> tuple[Rule, ...]:
    return tuple(sorted((rule for rules in modules for rule in rules), key=lambda rule: rule.id))


FAMILIES_OF_RULES: Mapping[str, tuple[Rule, ...]] = {
    "Gradients": _by_number(GRADIENT_RULES, MISSING_RULES),
    "Shards": SHARD_RULES,
    "What is kept beside the weights": _by_number(NORM_RULES, STATE_RULES),
    "Losses": LOSS_RULES,
    "Optimizers and schedules": _by_number(OPTIMIZER_RULES, GATE_RULES),
    "The program": PROGRAM_RULES,
}


def _by_id(rules: Iterable[Rule]) -> dict[str, Rule]:
    known: dict[str, Rule] = {}
    for rule in rules:
        if rule.id in known:
            raise KeyError(f"two rules are called {rule.id}")
        known[rule.id] = rule
    return known


SCAN_RULES: Mapping[str, Rule] = _by_id(rule for rules in FAMILIES_OF_RULES.values() for rule in rules)
# What a recording names and no rule does, and why source does not show it.
NOT_FROM_SOURCE: Mapping[str, str] = {
    "towers_not_separated": "says what the recorder could not separate in the graph",
    "ungated_loss": "is about the order in which a graph is run",
    "gradient_not_applied": "compares the recorded gradient with the recorded update",
}
