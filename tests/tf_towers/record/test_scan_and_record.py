"""What a scan of a script says and what a recording of it says: the same hazards, or the page of the rule says why not."""

from pathlib import Path

import pytest
from support.scan_and_record import disagreements

from parity.scan.scan import scan

SCRIPTS = Path(__file__).parents[2] / "legacy_scripts"
NAMES = [path.stem for path in sorted(SCRIPTS.glob("*.py")) if path.stem != "clones"]  # which needs TensorFlow 1.15


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_scan_and_a_recording_name_the_same_hazards(recorded, name):
    found = {each.rule for each in scan([SCRIPTS / f"{name}.py"]).findings}
    assert disagreements(recorded(name).hazards, found) == []
