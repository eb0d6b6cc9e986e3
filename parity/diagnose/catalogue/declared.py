"""The causes of differences that a case declares."""

from parity.diagnose.catalogue.info import CauseInfo

ROWS = (CauseInfo("declared_difference_absent", "what the case declares the port to do otherwise is not there", {}),)
