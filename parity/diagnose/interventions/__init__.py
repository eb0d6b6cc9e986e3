"""Tests hypotheses by running a step again, with one thing changed."""

from parity.diagnose.interventions.backward import with_cut as with_cut
from parity.diagnose.interventions.backward import with_parting as with_parting
from parity.diagnose.interventions.downstream import find_onward as find_onward
from parity.diagnose.interventions.search import ahead_of as ahead_of
from parity.diagnose.interventions.search import find_by_experiment as find_by_experiment
