"""The rules: what in legacy source will go wrong on the way to DistributedDataParallel, or has to be known."""

from parity.scan.rules.rule import Hit, Rule
from parity.scan.rules.table import NOT_FROM_SOURCE, SCAN_RULES

__all__ = ["NOT_FROM_SOURCE", "SCAN_RULES", "Hit", "Rule"]
