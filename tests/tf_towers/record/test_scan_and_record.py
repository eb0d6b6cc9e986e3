"""What a scan of a script says and what a recording of it says: the same hazards, or the page of the rule says why not."""

from pathlib import Path

import pytest
from support.scan_and_record import disagreements

from parity.scan.scan import scan

from .conftest import run_recorded

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "tests" / "legacy_scripts"
NAMES = [path.stem for path in sorted(SCRIPTS.glob("*.py")) if path.stem != "clones"]
EXAMPLE = ROOT / "examples" / "legacy_towers" / "train.py"
ON_TF1 = pytest.mark.parametrize("tf_python", [pytest.param("tf1", marks=pytest.mark.tf1)], indirect=True)


def rules_of(script: Path) -> set[str]:
    return {each.rule for each in scan([script]).findings}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_scan_and_a_recording_name_the_same_hazards(recorded, name):
    assert disagreements(recorded(name).hazards, rules_of(SCRIPTS / f"{name}.py")) == []


@pytest.mark.slow
@ON_TF1  # TensorFlow 2 has no contrib
def test_they_name_the_same_hazards_of_clones(recorded):
    assert disagreements(recorded("clones").hazards, rules_of(SCRIPTS / "clones.py")) == []


@pytest.mark.slow
@ON_TF1
def test_they_name_the_same_hazards_of_a_residual_net(recorded_here):
    assert (
        disagreements(recorded_here("resnet_slim").hazards, rules_of(Path(__file__).with_name("resnet_slim.py"))) == []
    )


@pytest.mark.slow
def test_they_name_the_same_hazards_of_a_zero_debiased_average(recorded_here):
    script = Path(__file__).with_name("zero_debiased.py")
    assert disagreements(recorded_here("zero_debiased").hazards, rules_of(script)) == []


@pytest.mark.slow
def test_they_name_the_same_hazards_of_the_example(tf_python, tmp_path):
    trace = run_recorded(tf_python, EXAMPLE, "--steps", "3", options=(), cwd=tmp_path)
    assert trace.code == 0, trace.said
    assert disagreements(trace.hazards, rules_of(EXAMPLE)) == []
