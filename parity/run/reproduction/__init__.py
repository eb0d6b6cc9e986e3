"""Writes the smallest thing that shows a first difference: a script for each framework, and the numbers they start from."""

from parity.run.reproduction.write import ReproductionError as ReproductionError
from parity.run.reproduction.write import reproduced as reproduced
from parity.run.reproduction.write import write_reproduction as write_reproduction
