"""A bad and a good fixture for each rule: what is bad is found where it stands, what is good is not."""

import sys
from pathlib import Path

import pytest

from parity.scan.result import TOWERS, Severity
from parity.scan.rules import NOT_FROM_SOURCE, SCAN_RULES
from parity.scan.scan import scan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).parent / "fixtures"
BASE = (FIXTURES / "base.txt").read_text(encoding="utf-8")
EDITS = tomllib.loads((FIXTURES / "rules.toml").read_text(encoding="utf-8"))
HERE = "# here"


def edited(edits: dict[str, str]) -> str:
    text = BASE
    for old, new in edits.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new.removeprefix("\n"))
    return text


def forms(word):
    return [(rule, form) for rule, edits in sorted(EDITS.items()) for form in edits if form.startswith(word)]


def marked_lines(source):
    return [number for number, line in enumerate(source.split("\n"), 1) if line.endswith(HERE)]


def scanned(folder, source):
    path = folder / "train.py"
    path.write_text(source, encoding="utf-8")
    result = scan([path])
    assert result.unread == []
    return result


def test_the_good_script_has_towers_and_no_finding(tmp_path):
    result = scanned(tmp_path, BASE)
    (towers,) = result.towers
    assert towers.kind == TOWERS
    assert towers.fact("combination") == "mean in combine()"
    assert towers.fact("flag") == "--num_gpus, by default 2"
    assert result.findings == []


def test_every_rule_has_a_bad_fixture():
    assert list(EDITS) == sorted(SCAN_RULES)
    assert all("bad" in each for each in EDITS.values())


@pytest.mark.parametrize(("rule", "form"), forms("bad"))
def test_what_is_bad_is_found_where_it_stands(tmp_path, rule, form):
    source = edited(EDITS[rule][form])
    found = {each.place.line: each.severity for each in scanned(tmp_path, source).findings if each.rule == rule}
    assert found == dict.fromkeys(marked_lines(source), SCAN_RULES[rule].severity)


@pytest.mark.parametrize(("rule", "form"), forms("note"))
def test_what_the_source_does_not_decide_is_a_note_where_it_stands(tmp_path, rule, form):
    assert SCAN_RULES[rule].severity > Severity.NOTE
    source = edited(EDITS[rule][form])
    found = {each.place.line: each.severity for each in scanned(tmp_path, source).findings if each.rule == rule}
    assert found == dict.fromkeys(marked_lines(source), Severity.NOTE)


@pytest.mark.parametrize(("rule", "form"), forms("warning"))
def test_what_differs_by_less_is_a_warning_where_it_stands(tmp_path, rule, form):
    assert SCAN_RULES[rule].severity > Severity.WARNING
    source = edited(EDITS[rule][form])
    found = {each.place.line: each.severity for each in scanned(tmp_path, source).findings if each.rule == rule}
    assert found == dict.fromkeys(marked_lines(source), Severity.WARNING)


@pytest.mark.parametrize(("rule", "form"), forms("good"))
def test_what_is_good_is_not_found(tmp_path, rule, form):
    assert rule not in {each.rule for each in scanned(tmp_path, edited(EDITS[rule][form])).findings}


def test_what_source_does_not_decide_is_never_an_error():
    assert [rule.id for rule in SCAN_RULES.values() if not rule.decided and rule.severity.word == "error"] == []


def test_a_rule_that_a_recording_may_contradict_says_why():
    of_recordings = {rule.id for rule in SCAN_RULES.values() if rule.hazards and not rule.decided}
    assert all(SCAN_RULES[each].only_found for each in of_recordings)
    without_hazards = [rule for rule in SCAN_RULES.values() if not rule.hazards]
    assert [rule.id for rule in without_hazards if rule.only_found or rule.only_recorded] == []
    assert all(len(reason) > 20 for reason in NOT_FROM_SOURCE.values())


def test_a_script_without_towers_gives_nothing(tmp_path):
    single = BASE.replace("for i in range(FLAGS.num_gpus):", "for i in range(1):").replace(
        'tf.device("/gpu:%d" % i)', 'tf.device("/gpu:0")'
    )
    single = single.replace('tf.name_scope("tower_%d" % i)', 'tf.name_scope("model")').replace(
        "reuse=i > 0", "reuse=None"
    )
    single = single.replace("MomentumOptimizer(rate, 0.9)", "RMSPropOptimizer(rate)")
    result = scanned(tmp_path, single)
    assert (list(result.towers), list(result.findings)) == ([], [])
