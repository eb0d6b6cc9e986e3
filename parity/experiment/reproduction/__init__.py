"""Writes the smallest thing that shows a first difference: a script for each framework, and the numbers they start from."""

from parity.experiment.reproduction.write import ReproductionError as ReproductionError
from parity.experiment.reproduction.write import reproduced as reproduced
from parity.experiment.reproduction.write import write_reproduction as write_reproduction
