"""Would it have caught it? Plants known bugs in the user's own case and says what was detected and named."""

from parity.prove.planting import Planted as Planted
from parity.prove.planting import plant as plant
from parity.prove.power import PROBES as PROBES
from parity.prove.power import Outcome as Outcome
from parity.prove.power import Power as Power
from parity.prove.power import Probe as Probe
from parity.prove.power import prove as prove
