"""Names the cause of a difference: hypotheses tested against the traces, and only those kept that the numbers support."""

from parity.causes.evidence import Evidence as Evidence
from parity.causes.find import HYPOTHESES as HYPOTHESES
from parity.causes.find import VAGUE as VAGUE
from parity.causes.find import find_causes as find_causes
from parity.causes.further import find_further as find_further
from parity.causes.further import first_in_lockstep as first_in_lockstep
from parity.causes.gradients_at_once import gradients_at_once as gradients_at_once
