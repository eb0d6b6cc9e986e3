"""Names the cause of a difference: hypotheses tested against the traces, and only those kept that the numbers support."""

from parity.diagnose.detectors.gradient_model import gradients_at_once as gradients_at_once
from parity.diagnose.evidence import Evidence as Evidence
from parity.diagnose.search import HYPOTHESES as HYPOTHESES
from parity.diagnose.search import find_causes as find_causes
from parity.diagnose.search import find_further as find_further
from parity.diagnose.search import first_in_lockstep as first_in_lockstep
