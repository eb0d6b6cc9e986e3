"""Several cases in one command: each in a process of its own, a line for each, one summary and one report of all."""

from parity.cli.batch.outcome import Outcome, label_of, worst_code
from parity.cli.batch.processes import run_cases
from parity.cli.batch.reports import write_reports

__all__ = ["Outcome", "label_of", "run_cases", "worst_code", "write_reports"]
