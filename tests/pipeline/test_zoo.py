"""The zoo's cases and bugs are whole: every bug can be planted, and every case is in one half."""

import subprocess
import sys
from pathlib import Path

import pytest

from parity.case import load_case

ZOO = Path(__file__).parents[2] / "benchmarks" / "zoo"
CASES = sorted(path.name for path in (ZOO / "cases").iterdir() if (path / "case.toml").exists())


@pytest.fixture(scope="module")
def bugs():
    """The module that reads and plants bugs, whose folder is no package."""
    sys.path.insert(0, str(ZOO))
    try:
        import bugs

        yield bugs
    finally:
        sys.path.remove(str(ZOO))
        sys.modules.pop("bugs", None)


def test_every_case_is_in_one_half_by_lot(bugs):
    split = bugs.tomllib.loads((ZOO / "split.toml").read_text(encoding="utf-8"))
    names = split["learn"] + split["held"]
    assert sorted(names) == sorted(set(names)), "a case in both halves"
    assert set(CASES) == set(names)


@pytest.mark.parametrize("name", CASES)
def test_every_bug_of_a_case_can_be_planted(bugs, name, tmp_path):
    case = ZOO / "cases" / name
    found = bugs.bugs_of(case)
    assert len(found) >= 2
    for bug in found:
        planted = bugs.plant(case, bug, tmp_path / bug.id)
        assert (planted / bug.file).read_text() != (case / bug.file).read_text()
    assert load_case(case).towers >= 1


def test_a_bug_whose_text_stands_twice_is_refused(bugs, tmp_path):
    (tmp_path / "model_torch.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "bugs.toml").write_text(
        '[[bug]]\nid = "x"\nfile = "model_torch.py"\nfind = "= 1"\nreplace = "= 2"\nkind = "loss"\n'
        'quantity = "loss"\nwords = "two"\n'
    )
    with pytest.raises(ValueError, match=r"expected its text once in model_torch\.py, got 2 times"):
        bugs.bugs_of(tmp_path)


def test_a_case_that_no_half_holds_is_said_to_be_none():
    words = [sys.executable, ZOO / "bench.py", "learn", "--case", "no_such_case"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "expected cases of the half learn, got no_such_case" in ended.stderr
