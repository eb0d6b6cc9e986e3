"""What rests on ops of the reference whose float64 kernel is as rough as float32."""

import numpy as np
import pytest

from parity.judge import Join
from parity.judge.imprecise_ops import inexact_notes, is_inexact
from parity.judge.levels.function import Lockstep, judge_lockstep
from parity.mapping import Mapping
from parity.mapping.trace_map import Renaming
from parity.trace import Trace, TraceWriter, parse_key

ROUGH = {"inexact_in_float64": {"places": ["model.py:7: CTCLoss"], "outputs": ["", "total"]}}
OF_A_METRIC = {"inexact_in_float64": {"places": ["model.py:7: CTCLoss"], "outputs": ["total"]}}


@pytest.mark.parametrize(
    ("name", "loss", "metric"),
    [
        ("loss/0", True, False),
        ("act/0/total", True, True),
        ("act/0/logits", False, False),
        ("metric/total", True, True),
        ("tower_grad/0/w", True, False),
        ("grad/w", True, False),
        ("slot/m/w", True, False),
        ("var/w", True, False),
        ("stat/mean", False, False),
        ("feed/0/x", False, False),
        ("eval/total", True, True),
        ("eval/logits", True, False),  # after an update that is known to float32 only
        ("eval/loss", True, False),
    ],
)
def test_what_depends_on_such_an_op_is_known_to_float32_only(name, loss, metric):
    assert is_inexact(parse_key(name), ROUGH) is loss
    assert is_inexact(parse_key(name), OF_A_METRIC) is metric
    assert is_inexact(parse_key(name), {"inexact_in_float64": {}}) is False


def test_the_report_says_what_is_judged_so():
    assert inexact_notes({}) == inexact_notes({"inexact_in_float64": {}}) == []
    (note,) = inexact_notes(ROUGH)
    assert "model.py:7: CTCLoss" in note
    assert note.endswith("(the loss, gradients and updates, total)")
    assert inexact_notes(OF_A_METRIC)[0].endswith("(total)")


def trace(folder, facts, value, dtype):
    writer = TraceWriter(folder, {"package": "test"}, facts)
    writer.init({})
    writer.step(0, {name: np.asarray(value, dtype) for name in ("act/0/total", "act/0/logits")})
    writer.close()
    return Trace(folder)


@pytest.mark.parametrize(("off", "verdict"), [(1e-7, "same"), (4e-7, "different")])
def test_such_outputs_are_allowed_what_float32_rounds_and_no_more(tmp_path, off, verdict):
    value = np.full(9, 1.0 + 2.0**-10)  # a float32 number: no rounding adds to 3 * 2 * 2^-24 = 3.6e-7
    traces = [
        trace(tmp_path / f"{side}-{bits}", ROUGH, value * factor, f"float{bits}")
        for side, factor in (("reference", 1.0), ("candidate", 1.0 + off))
        for bits in (32, 64)
    ]
    traces[2] = trace(tmp_path / "as-float64", ROUGH, traces[3].step(0).read("act/0/total"), "float64")
    lockstep = Lockstep(*traces, states=traces[0])
    join = Join(Mapping([]), {"act": Renaming("act", {})}, [])
    checks = {check.key: check.verdict for check in judge_lockstep(join, lockstep, [0])}
    assert checks == {"act/0/total": verdict, "act/0/logits": "different"}
