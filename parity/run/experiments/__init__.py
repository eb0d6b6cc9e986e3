"""Tests hypotheses by running a step again, with one thing changed."""

from parity.run.experiments.find import ahead_of as ahead_of
from parity.run.experiments.find import find_by_experiment as find_by_experiment
from parity.run.experiments.onward import find_onward as find_onward
from parity.run.experiments.parting import with_parting as with_parting
from parity.run.experiments.uncut import with_cut as with_cut
