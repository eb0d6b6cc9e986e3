"""What the comparison of snapshots leaves out, and what it does not."""

from pathlib import Path

import pytest

from snapshots.normal import digits, normal_result, normal_text

FOLDER, ROOT = Path("/somewhere/kept"), Path("/checkout")
RESULT = {
    "levels": {
        "float32": {"reason": "114 tensors; at most 0.19 of the tolerance, 5e-08 of the scale", "compared": 114}
    },
    "causes": [{"name": "clipping", "title": "gradients clipped at 0.5", "evidence": "1 step", "fix": "clip at 0.25"}],
    "checks": [
        {"key": "grad/a", "verdict": "same", "worst_step": 0, "worst_multiple": 0.31},
        {"key": "grad/b", "verdict": "different", "worst_step": 1, "worst_multiple": 1e9},
    ],
    "repeats": [{"side": "candidate", "tensors": 3, "unequal": 0, "wanders": 0.0, "where": ""}],
    "reference": {"optimizer": {"epsilon": 1e-8}, "error": 3.1415e-9},
    "candidate": {"framework": "torch 2.13.0+cpu", "cpu_capability": "AVX512", "trace": "/somewhere/kept/torch"},
}
REPORT = """verdict: different
  reference   0.33136434
  error       0.249 absolute, 0.75 relative, 4.48e+15 ulp
  tolerance   2.37e-14; the error is 1.95e+13 times the tolerance

Cause: gradients off by the factor 48
  fix: sum in the port too

Cause: the candidate's statistics move 0.5 times as far

compared 9 tensors; smaller than their tolerance 0; runs of either
side repeat bit for bit
"""


def result(*change):
    return normal_result(changed(RESULT, *change), FOLDER, ROOT)


def changed(value, old=None, new=None):
    if isinstance(value, dict):
        return {key: changed(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [changed(each, old, new) for each in value]
    return new if type(value) is type(old) and value == old else value


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (0.31, 0.47),
        (1e9, 3.2e9),
        (0.0, 1.6e-8),
        ("", "step 0, grad/a"),
        (3.1415e-9, 1.0342e-8),
        ("torch 2.13.0+cpu", "torch 2.14.1"),
        ("AVX512", "DEFAULT"),
        (
            "114 tensors; at most 0.19 of the tolerance, 5e-08 of the scale",
            "114 tensors; at most 0.2 of the tolerance, 1e-07 of the scale",
        ),
    ],
)
def test_a_result_may_come_from_another_processor(old, new):
    assert result(old, new) == result()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gradients clipped at 0.5", "gradients are clipped at 0.5"),
        ("gradients clipped at 0.5", "gradients clipped at 0.6"),
        ("clip at 0.25", "clip at 0.24"),
        ("1 step", "2 steps"),
        ("clipping", "cut"),
        ("same", "different"),
        ("grad/a", "grad/c"),
        (1e-8, 1e-7),
        (1e-8, 0.0),
        (114, 113),
        (3, 4),
    ],
)
def test_a_result_may_not_change_in_a_title_a_fix_a_place_a_verdict_a_setting_or_a_count(old, new):
    assert result(old, new) != result()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.33136434", "0.33136521"),
        ("4.48e+15", "8.1e+15"),
        ("2.37e-14; the error is 1.95e+13", "1.1e-13; the error is 402,000"),
        (
            "runs of either\nside repeat bit for bit",
            "reference: runs repeat bit for bit; candidate:\nrun-to-run difference 1e-8 (a; 3)",
        ),
    ],
)
def test_a_report_may_come_from_another_processor(old, new):
    assert old in REPORT
    assert words(REPORT.replace(old, new)) == words(REPORT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("48", "47"),
        ("move 0.5", "move 0.6"),
        ("fix", "mend"),
        ("0.331", "0.332"),
        ("0.75", "0.7"),
        ("9 tensors", "8 tensors"),
    ],
)
def test_a_report_may_not_change_in_words_or_figures(old, new):
    assert old in REPORT
    assert words(REPORT.replace(old, new)) != words(REPORT)


def words(report):
    return normal_text(report, FOLDER, ROOT).split()


def test_neighbours_of_a_short_number_are_rounded_alike():
    assert digits(0.125 - 1e-9) == digits(0.125 + 1e-9) == "0.125"
    assert digits(0.3125 - 1e-9) == digits(0.3125 + 1e-9)
    assert [digits(number) for number in (0.0, 1e-9, 3e8, float("nan"))] == ["0", "0", "huge", "nan"]
