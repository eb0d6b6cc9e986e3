"""The labels of public repositories: facts, each with a repository, a commit, a file and a line."""

import re
import sys
from pathlib import Path, PurePosixPath

import pytest

from parity.scan.rules import SCAN_RULES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LABELS = Path(__file__).parent / "labels"
SETS = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8"))["repository"] for path in sorted(LABELS.glob("*.toml"))
}
PLACES = [
    (each["name"], place)
    for repositories in SETS.values()
    for each in repositories
    for kind in ("tower", "hazard", "judged", "wrongly_listed", "judged_note", "unreported")
    for place in each.get(kind, [])
]


def test_there_are_enough_of_them():
    before, after, unseen = SETS["labelled_before"], SETS["labelled_after"], SETS["labelled_unseen"]
    assert len(before) >= 25
    assert len(after) >= 8
    assert any(not each["has_towers"] for each in before)
    assert any(not each["has_towers"] for each in after)
    assert len(unseen) >= 10
    assert any(not each["has_towers"] for each in unseen)


@pytest.mark.parametrize("name", SETS)
def test_every_repository_has_its_commit(name):
    for each in SETS[name]:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", each["name"])
        assert re.fullmatch(r"[0-9a-f]{40}", each["commit"]), each["name"]


def test_every_label_has_its_place():
    assert len(PLACES) > 300
    for name, place in PLACES:
        path = PurePosixPath(place["file"])
        assert not path.is_absolute() and ".." not in path.parts, name
        assert place["line"] > 0


def test_no_repository_is_in_two_sets():
    names = [each["name"] for name, repositories in SETS.items() if name != "judged" for each in repositories]
    assert len(names) == len(set(names))


def test_what_was_judged_are_errors_and_warnings_of_rules():
    judged = [each for repository in SETS["judged"] for each in repository["judged"]]
    assert len(judged) > 100
    # These were warnings when they were judged.
    levels = {SCAN_RULES[each["rule"]].severity.word for each in judged if each["rule"] not in ("TP601", "TP603")}
    assert levels == {"error", "warning"}


def test_notes_that_were_judged_are_of_rules_that_note():
    notes = [each for repository in SETS["labelled_unseen"] for each in repository.get("judged_note", [])]
    assert len(notes) >= 8
    assert {SCAN_RULES[each["rule"]].severity.word for each in notes} == {"note"}
