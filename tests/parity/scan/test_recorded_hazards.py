"""The scan and the recorder name the same hazards of the scripts that the tests record."""

import ast
from pathlib import Path

import pytest
from support.scan_and_record import allowed_by_a_page, disagreements

from parity.scan.rules import NOT_FROM_SOURCE, SCAN_RULES
from parity.scan.scan import scan

TESTS = Path(__file__).parents[2]
SCRIPTS = TESTS / "legacy_scripts"
# As `parity record --steps 3` names them on TensorFlow 2.21; the tests of the recorder hold the others.
RECORDED = {
    "bias_before_norm": {"global_step_not_counted"},
    "counted": {"ungated_state"},
    "fed_rate": set(),
    "hand_written_adam": {"ungated_state"},
    "mirrored_pool": {"global_step_not_counted"},
    "nesterov": set(),
    "own_graph": {"global_step_not_counted", "trained_in_threads"},
    "recurrent": set(),
    "resource_loop": set(),
    "sampled": set(),
}


def held_by_the_recorder() -> dict[str, set[str]]:
    """Returns the table of `test_record_scripts.py`, which records each of its scripts."""
    source = (TESTS / "tf_towers" / "record" / "test_record_scripts.py").read_text(encoding="utf-8")
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "HAZARDS":
            return ast.literal_eval(statement.value)
    raise AssertionError("no HAZARDS")


TABLE = {**RECORDED, **held_by_the_recorder()}


def rules_of(script: Path) -> set[str]:
    return {each.rule for each in scan([script]).findings}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_script_has_the_same_hazards_or_a_page_says_why_not(name):
    assert disagreements(TABLE[name], rules_of(SCRIPTS / f"{name}.py")) == []


@pytest.mark.parametrize(
    ("name", "hazard"), [(name, hazard) for name, hazards in sorted(TABLE.items()) for hazard in sorted(hazards)]
)
def test_every_recorded_hazard_of_these_scripts_is_found_in_their_source(name, hazard):
    found = rules_of(SCRIPTS / f"{name}.py")
    assert hazard in {each for rule in found for each in SCAN_RULES[rule].hazards}


def test_a_disagreement_is_seen():
    assert disagreements({"sum_not_mean"}, set()) == ["only recorded: sum_not_mean"]
    assert disagreements(set(), {"TP101"}) == ["only found: TP101"]
    assert disagreements({"sum_not_mean"}, {"TP101"}) == []
    # Undecided, and its page says so.
    assert disagreements(set(), {"TP105"}) == []
    # A page speaks of one direction, and not of the other.
    assert disagreements({"ungated_state"}, set()) == ["only recorded: ungated_state"]
    assert disagreements({"overlapping_data", "last_towers_loss"}, set()) == []
    assert disagreements(set(), {"TP201", "TP401"}) == ["only found: TP201", "only found: TP401"]
    assert allowed_by_a_page({"towers_not_separated"}, {"TP101", "TP105"}) == [
        "only recorded: towers_not_separated",
        "only found: TP105",
    ]


def test_every_hazard_of_the_recorder_has_a_rule_or_a_reason():
    source = (TESTS.parent / "docs" / "record.md").read_text(encoding="utf-8")
    table = source[source.index("## Hazards") : source.index("## Replaying")]
    named = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].replace("`", "").replace(",", " ").split()
    }
    assert len(named) > 25
    of_rules = {name for rule in SCAN_RULES.values() for name in rule.hazards}
    assert named - of_rules - NOT_FROM_SOURCE.keys() == set()
    assert of_rules - named == set()
