"""The script that draws mutants: what it changes, where, and what it makes of the results."""

import ast
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WATCHED_CLOSELY = ("judge", "mapping", "trace", "diagnosis", "levels", "replay", "record", "shadow")


@pytest.fixture
def tools(monkeypatch):
    """The modules of benchmarks, found for one test."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import mutants
    from mutation import draw, seen, sites

    yield mutants, draw, seen, sites
    for name in [name for name in sys.modules if name == "mutants" or name.split(".")[0] == "mutation"]:
        monkeypatch.delitem(sys.modules, name)


MODULE = textwrap.dedent('''
    """Docstring with 3 numbers."""
    LIMIT: float = 64.0

    def judged(one: float, other: float, strict: bool = False) -> bool:
        """Returns whether 1 is near 2."""
        found = []
        if one < other and not strict:
            found.append(max(one, 2))
        return len(found) + 1 > LIMIT or f"{one:3}" == "3"
''')


def test_every_kind_of_change_is_known_and_nothing_in_words_or_annotations_is_changed(tools):
    *_, sites = tools
    found = {(site.kind, site.function, " ".join(site.before.split()), site.after) for site in sites.sites_of(MODULE)}
    assert found >= {
        ("constant", "<module>", "64.0", "(64000.0)"),
        ("constant", "<module>", "64.0", "(0.0)"),
        ("constant", "judged", "False", "(True)"),
        ("comparison", "judged", "one < other", "(one <= other)"),
        ("comparison", "judged", "one < other", "(one >= other)"),
        ("and, or", "judged", "one < other and not strict", "(one < other or not strict)"),
        ("not", "judged", "not strict", "(strict)"),
        ("condition", "judged", "one < other and not strict", "True"),
        ("statement", "judged", "found.append(max(one, 2))", "pass"),
        ("min, max", "judged", "max(one, 2)", "(min(one, 2))"),
        ("argument", "judged", "max(one, 2)", "(max(one))"),
        ("arithmetic", "judged", "len(found) + 1", "(len(found) - 1)"),
        ("return early", "judged", "", "return True; "),
    }
    assert {before for kind, _, before, _ in found if kind == "constant"} == {"64.0", "False", "2", "1"}


def test_a_change_changes_the_module_at_its_line_alone(tools):
    *_, sites = tools
    for site in sites.sites_of(MODULE):
        text = site.applied(MODULE)
        assert text != MODULE and ast.parse(text)
        assert text.split("\n")[: site.line - 1] == MODULE.split("\n")[: site.line - 1]


def test_the_first_mutants_are_the_same_whatever_their_number(tools, tmp_path):
    _, draw, *_ = tools
    for folder in ("parity/judge", "parity/trace", "tf_towers", "torch_ddp"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "module.py").write_text(MODULE)
    source = draw.Source(tmp_path)
    twenty = source.draw(20, 7)
    assert source.draw(5, 7) == twenty[:5] and len({mutant.name for mutant in twenty}) == 20
    assert {mutant.area for mutant in twenty} == {"judge", "trace", "tf_towers", "torch_ddp"}
    assert source.draw(5, 8) != twenty[:5]


def test_every_area_has_modules_and_most_mutants_fall_where_verdicts_are_made(tools):
    _, draw, *_ = tools
    areas = draw.AREAS
    assert sum(share for share, _ in areas.values()) == 100
    assert sum(areas[area][0] for area in WATCHED_CLOSELY) >= 60
    for area, (_, globs) in areas.items():
        assert all(next(ROOT.glob(glob), None) for glob in globs), area


def test_the_tests_that_enter_a_function_are_shown_its_mutants_the_quickest_file_first(tools, tmp_path):
    _, _, seen, _ = tools
    (tmp_path / "tests").mkdir()
    for name in ("slow", "quick", "other"):
        (tmp_path / "tests" / f"test_{name}.py").write_text("from parity.tables import X\n")
    (tmp_path / "parity").mkdir()
    for name in ("judge", "tables"):
        (tmp_path / "parity" / f"{name}.py").touch()
    known = seen.Seen(tmp_path / "seen.json", tmp_path)
    entered = frozenset(["parity/judge.py::near"])
    known.tests = {
        "tests/test_slow.py::test": seen.Known(9.0, entered),
        "tests/test_quick.py::test": seen.Known(0.1, entered),
        "tests/test_other.py::test": seen.Known(0.1, frozenset(["parity/judge.py::far"])),
    }
    first = ["tests/test_quick.py::test", "tests/test_slow.py::test"]
    assert known.of("parity/judge.py", "near") == first
    assert set(known.of("parity/judge.py", "<module>")) == set(known.tests)
    assert set(known.of("parity/tables.py", "<module>")) == set(known.tests)  # by what they import
    assert known.of("parity/unknown.py", "near") == []
    assert known.missing(["tests/test_slow.py"]) == ["tests/test_slow.py"]
    (tmp_path / "parity/judge.py").unlink()
    assert set(known.missing(["tests/test_quick.py"])) == {"tests/test_quick.py"}


def test_killed_and_timed_out_count_and_what_nothing_can_tell_does_not(tools):
    mutants, *_ = tools
    states = ["killed", "killed", "timed out", "survived", "equivalent"]
    found = [
        {"state": state, "area": "judge", "mutant": f"m{n}", "tests": 2, "tests_that_enter": 3, "seconds": 1.0}
        for n, state in enumerate(states)
    ]
    assert mutants.share_killed(found) == 0.75
    table = mutants.told(found).split("\n")
    assert "survived: m3 (2 of 3 tests)" in table and table[2].split() == ["judge", "2", "1", "1", "0", "1"]
