"""The script that draws mutants: what it changes, where, and what it makes of the results."""

import ast
import json
import subprocess
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


def test_a_change_has_the_lines_of_its_statement_as_far_as_the_body_and_none_where_the_function_is_defined(tools):
    *_, sites = tools
    text = "X = 1\n\ndef judged(one, other=2):\n    if (one <\n       other):\n        return (one +\n           3)\n"
    lines = {site.before: site.statement for site in sites.sites_of(text)}
    assert lines["1"] is None and lines["2"] is None
    assert lines["3"] == (6, 7) and {lines[before] for before in lines if "<" in before} == {(4, 5)}


def test_what_python_compiles_to_the_same_is_no_change(tools):
    *_, sites = tools
    text = "def one(two):\n    return two + 2 * 3\n"
    assert sites.is_same(text, "def one(two):\n\n    return (two + (6))\n".replace("(6)", "2 * 3"))
    assert not sites.is_same(text, text.replace("3", "4")) and not sites.is_same(text, text.replace("2 *", "2.0 *"))


MODULE_OF_TWO = """
def near(one):
    if one:
        return 1
    return 2


def far(one):
    return 3
"""


def test_the_tests_that_run_a_line_are_shown_its_mutants_the_quickest_file_first(tools, tmp_path):
    _, draw, seen, sites = tools
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_start.py").write_text("import subprocess\n")
    for name in ("slow", "quick", "other"):
        (tmp_path / "tests" / f"test_{name}.py").write_text("from parity.tables import X\n")
    (tmp_path / "parity").mkdir()
    judge = "parity/judge.py"
    tables = "X = 1\n\n\nclass Row:\n    size = 5\n"
    for path, text in ((judge, MODULE_OF_TWO), ("parity/tables.py", tables), ("parity/unknown.py", MODULE_OF_TWO)):
        (tmp_path / path).write_text(text)

    def mutant(before, path=judge):
        return next(
            draw.Mutant("judge", path, site)
            for site in sites.sites_of((tmp_path / path).read_text())
            if site.before == before
        )

    def block(function, *lines, path=judge):
        return seen.Block(path, draw.digest(tmp_path / path), function, (0, *lines))

    known = seen.Seen(tmp_path / "seen.json", tmp_path)
    slow, quick, other = (f"tests/test_{name}.py::test" for name in ("slow", "quick", "other"))
    importing = [block(function, 1, path="parity/tables.py") for function in ("<module>", "Row")]
    known.tests = {
        slow: seen.Known(9.0, frozenset([block("near", 3, 4)])),
        quick: seen.Known(0.1, frozenset([block("near", 3, 5)])),
        other: seen.Known(0.2, frozenset([block("far", 9)])),
        "tests/test_start.py::test": seen.Known(3.0, frozenset(importing)),
    }
    assert known.of(mutant("one")) == [quick, slow]
    assert known.of(mutant("1")) == [slow] and known.of(mutant("2")) == [quick] and known.of(mutant("3")) == [other]
    for change in ("1", "5"):  # by what they import, also where a process that is watched has imported it
        assert known.of(mutant(change, "parity/tables.py")) == [quick, other, slow]
    assert known.of(mutant("1", "parity/unknown.py")) == []
    assert known.missing(["tests/test_slow.py"]) == ["tests/test_slow.py"]
    (tmp_path / judge).write_text("LIMIT = 7\n" + MODULE_OF_TWO)  # the lines are others, the functions are there
    assert known.of(mutant("1")) == [quick, slow] and known.of(mutant("7")) == [quick, other, slow]
    (tmp_path / judge).unlink()
    assert set(known.missing(["tests/test_quick.py"])) == {"tests/test_quick.py"}


SCRIPT = """
import os
import sys
import threading

from parity import judge, same_text

now = open(sys.argv[1], "r+b", buffering=0)


def test(number):
    now.seek(0)
    now.write(number.to_bytes(4, sys.byteorder))


test(1)
judge.near(True)
test(2)
judge.near(False)
judge.near(False)
test(3)
other = threading.Thread(target=judge.far, args=(1,))
other.start()
other.join()
test(4)
forked = os.fork()
if not forked:
    judge.far(1)
    os._exit(0)
os.waitpid(forked, 0)
test(5)
same_text.far(1)
"""


def test_watched_are_the_lines_that_each_test_runs_in_threads_and_forks_too(tools, tmp_path):
    *_, seen, _ = tools
    (tmp_path / "parity").mkdir()
    start = f'__import__("runpy").run_path({str(ROOT / "benchmarks/mutation/watch.py")!r})["start"]'
    (tmp_path / "parity" / "__init__.py").write_text(f"{start}({str(tmp_path)!r}, '{tmp_path}/')\n" * 2)
    for name in ("judge.py", "same_text.py"):
        (tmp_path / "parity" / name).write_text(MODULE_OF_TWO)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "now").write_bytes(bytes(4))
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "now")]
    subprocess.run(command, env={"PYTHONPATH": str(tmp_path)}, timeout=60, check=True)
    found = seen.lines_in(tmp_path)
    judge = "parity/judge.py"
    assert found[1] == {(judge, "near"): {0, 3, 4}} and found[2] == {(judge, "near"): {0, 3, 5}}
    assert found[3] == {(judge, "far"): {0, 9}} == found[4]
    assert found[5] == {("parity/same_text.py", "far"): {0, 9}}


def test_what_is_taken_from_a_run_is_kept_with_what_shared_fixtures_run(tools, tmp_path):
    _, draw, seen, _ = tools
    for path in ("parity/judge.py", "tests/test_one.py"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(MODULE_OF_TWO)
    (tmp_path / "lines-1").write_text("+ 1 parity/judge.py near\n+ 2 parity/judge.py far\n7 1 0\n7 1 3\n8 2 0\n9 1 5\n")
    told = {"seconds": 0.5, "number": 7, "fixtures": [8]}
    rows = [
        {"test": "tests/test_one.py::test", "passed": True, **told},
        {"test": "tests/test_one.py::no", "passed": False, **told},
    ]
    (tmp_path / "tests.jsonl").write_text("\n".join(map(json.dumps, rows)))
    known = seen.Seen(tmp_path / "seen.json", tmp_path)
    known.take(tmp_path, ["tests/test_one.py"])
    module = draw.digest(tmp_path / "parity/judge.py")
    blocks = {seen.Block("parity/judge.py", module, "near", (0, 3)), seen.Block("parity/judge.py", module, "far", (0,))}
    again = seen.Seen(tmp_path / "seen.json", tmp_path)
    assert again.tests == {"tests/test_one.py::test": seen.Known(0.5, frozenset(blocks))} == known.tests
    assert again.missing(["tests/test_one.py"]) == []


def test_what_does_not_count_is_listed_by_a_rule_with_a_reason_and_is_a_change_of_what_is_there(tools):
    from mutation import equivalent

    _, draw, _, sites = tools
    for entry in equivalent.listed():
        places = sites.sites_of((ROOT / entry["path"]).read_text())
        same = [site for site in places if all(getattr(site, name) == entry[name] for name in equivalent.PLACE)]
        assert same, f"no such change: {entry}"
        assert equivalent.is_equivalent(draw.Mutant("trace", entry["path"], same[0]))
        assert not equivalent.is_equivalent(draw.Mutant("trace", entry["path"], same[0]._replace(after="0")))


@pytest.mark.parametrize(
    ("line", "kind", "after", "equivalent"),
    [
        ("for a, b in zip(one, other, strict=True): f(a)", "constant", "(False)", True),
        ("for a, b in zip(one, other, strict=True): f(a)", "argument", "(zip(one, other))", True),
        ("for a, b in zip(one, other, strict=True): f(a)", "argument", "(zip(one, strict=True))", False),
        ("f(one, strict=True, other=True)", "constant", "(False)", False),
        ("f(one, strict=True)", "argument", "(f(one))", False),
        ("f(zip(one), exact=True)", "constant", "(False)", False),
    ],
)
def test_that_lists_are_of_one_length_is_an_assertion_of_ours(tools, line, kind, after, equivalent):
    from mutation.equivalent import is_equivalent

    _, draw, _, sites = tools
    places = [
        site for site in sites.sites_of(f"def g(one, other):\n    {line}\n") if (site.kind, site.after) == (kind, after)
    ]
    assert places and {is_equivalent(draw.Mutant("judge", "g.py", site)) for site in places} == {equivalent}


@pytest.mark.parametrize("line", ['rule = "same value"', 'rule = "minor"\nreason = "hardly seen"'])
def test_a_change_without_a_reason_or_by_another_rule_is_not_taken_for_one_that_does_not_count(
    tools, tmp_path, monkeypatch, line
):
    from mutation import equivalent

    monkeypatch.setattr(equivalent, "LISTED", tmp_path / "equivalent.toml")
    (tmp_path / "equivalent.toml").write_text(f"[[mutant]]\n{line}\n")
    equivalent.listed.cache_clear()
    with pytest.raises(ValueError, match=r"equivalent.toml: expected a reason and a rule"):
        equivalent.listed()


def test_killed_and_timed_out_count_and_what_nothing_can_tell_does_not(tools):
    mutants, *_ = tools
    states = ["killed", "killed", "timed out", "survived", "equivalent"]
    found = [
        {"state": state, "area": "judge", "mutant": f"m{n}", "tests": 2, "tests_that_run": 3, "seconds": 1.0}
        for n, state in enumerate(states)
    ]
    assert mutants.share_killed(found) == 0.75
    table = mutants.told(found).split("\n")
    assert "survived: m3 (2 of 3 tests)" in table and table[2].split() == ["judge", "2", "1", "1", "0", "1"]
