"""Every lesson runs, on both TensorFlows where it uses one, and what it claims holds, and could fail to."""

import ast
import re
import sys
from pathlib import Path

import pytest
from lesson_stage import LESSONS, in_tiers

from parity.teach.lessons import TeachError, load_module
from parity.teach.play import Players, check_claims
from parity.teach.show import steps

ROOT = Path(__file__).parents[2]
WITH_PARTS = [number for number, lesson in LESSONS.items() if lesson.parts()]
OF_TORCH = [number for number, lesson in LESSONS.items() if lesson.parts() == ["torch"]]


@pytest.mark.parametrize("number", in_tiers(number for number in LESSONS if number not in OF_TORCH))
def test_a_lesson_with_towers_holds_on_both_tensorflows(number, stage, tf_python):
    played = stage.play(number, tf_python)
    assert all(played.claims.values())
    assert len(played.claims) >= 4
    version = played.frameworks[0]
    assert version.startswith("tensorflow 1.15" if tf_python != sys.executable else "tensorflow 2.")


@pytest.mark.parametrize("number", in_tiers(OF_TORCH))
def test_a_lesson_of_torch_alone_holds(number, stage):
    played = stage.play(number)
    assert all(played.claims.values())
    assert len(played.claims) >= 4
    assert played.frameworks[0].startswith("torch 2.")


@pytest.mark.parametrize("number", in_tiers(WITH_PARTS))
def test_the_claims_of_a_lesson_can_fail(number, stage):
    played = stage.play(number)
    begun = stage.players[sys.executable].begun
    lesson = LESSONS[number]
    answers = {name: begun[name, number].result()["answer"] for name in lesson.parts()}
    spoilt = {name: distorted(answer) for name, answer in answers.items()}
    module = load_module(lesson)
    reports = {"reports": played.numbers["reports"]} if hasattr(module, "reports") else {}
    for name in answers:
        claims = module.findings(**{**answers, **reports, name: spoilt[name]})[1]
        assert not all(claims.values()), name
        with pytest.raises(TeachError, match="this run's numbers say otherwise"):
            check_claims(lesson, claims)


@pytest.mark.slow
def test_the_claims_of_the_lesson_on_reports_can_fail(stage):
    found = stage.play(12).numbers["cases"]
    claims_of = load_module(LESSONS[12]).claims_of
    assert all(claims_of(found).values())
    swapped = {**found, "one": found["two"], "two": found["one"]}
    silent = {**found, "three": {**found["three"], "causes": []}}
    late = {**found, "one": {**found["one"], "before": ["same", "different"]}}
    for each in (swapped, silent, late):
        assert not all(claims_of(each).values())


@pytest.mark.slow
def test_the_claim_of_the_lesson_on_bisection_about_reports_can_fail(stage):
    reports = stage.play(16).numbers["reports"]
    begun = stage.players[sys.executable].begun
    answers = {name: begun[name, 16].result()["answer"] for name in ("tf", "torch")}
    findings = load_module(LESSONS[16]).findings
    assert all(findings(**answers, reports=reports)[1].values())
    swapped = {**reports, "both": reports["second"], "second": reports["both"]}
    late = {**reports, "second": {**reports["second"], "step": reports["second"]["step"] + 1}}
    silent = {**reports, "both": {**reports["both"], "verdict": "same"}}
    for each in (swapped, late, silent):
        assert not all(findings(**answers, reports=each)[1].values())


def distorted(value):
    """Returns an answer whose numbers are all off, each by another factor."""
    state = iter(range(1, 1_000_000))

    def off(item):
        if isinstance(item, dict):
            return {key: off(each) for key, each in item.items()}
        if isinstance(item, list):
            return [off(each) for each in item]
        if isinstance(item, (bool, str)) or item is None:
            return item
        return item * (1 + 0.01 * next(state)) if isinstance(item, float) else item - 1

    return off(value)


@pytest.mark.parametrize("number", in_tiers(LESSONS))
def test_the_text_has_steps_and_a_place_for_every_number(number, stage):
    found = steps(stage.play(number))
    assert len(found) >= 3
    assert all(step.body for step in found)
    whole = "\n".join(step.body for step in found)
    assert not re.search(r"\{\{|\}\}|\{%|Undefined|\bNone\b", re.sub(r"```.*?```|`.*?`", "", whole, flags=re.DOTALL))


@pytest.mark.parametrize("number", LESSONS)
def test_no_measured_number_is_written_into_the_text_by_hand(number):
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|`[^`]*`", "", LESSONS[number].source("text.md"), flags=re.DOTALL)
    assert re.findall(r"\d\.\d\S*|\b\d+e-?\d+", text) == []


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_is_short(number):
    lesson = LESSONS[number]
    for path in lesson.folder.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 150, path
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_the_lessons_are_numbered_from_one_and_listed_in_the_docs():
    assert list(LESSONS) == list(range(1, len(LESSONS) + 1))
    page = (ROOT / "docs" / "lessons.md").read_text(encoding="utf-8")
    for number, lesson in LESSONS.items():
        assert f"| {number} | [{lesson.title}](../examples/lessons/{lesson.folder.name}) | {lesson.about} |" in page


def test_a_lesson_that_claims_nothing_is_refused():
    with pytest.raises(TeachError, match="lesson 1: expected claims, got none"):
        check_claims(LESSONS[1], {})


@pytest.mark.slow
def test_the_processes_end_with_their_players(tmp_path):
    players = Players(None, tmp_path)
    play_alone = LESSONS[WITH_PARTS[0]]
    pids = []
    try:
        players.ask(play_alone, load_module(play_alone).ARGUMENTS)
        pids = [side.pid for side in players._started.values()]
    finally:
        players.close()
    assert len(pids) == len(play_alone.parts())
    assert [pid for pid in pids if Path("/proc", str(pid)).exists()] == []


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_is_a_script_too(number):
    assert f'main(["teach", "{number}"])' in LESSONS[number].source("lesson.py")
