"""Training programs recorded as they are: what the trace holds, and that recording changes no bit of what they do."""

import sys

import numpy as np
import pytest
import torch

from parity.trace import Trace, section_of


def same_weights(one, other):
    first, second = torch.load(one), torch.load(other)
    return list(first) == list(second) and all(torch.equal(first[name], second[name]) for name in first)


SLOW = pytest.mark.slow
BY_ITSELF = ("plain", "compiled")  # in interpreters of their own, as users start them; the compiler starts more
STATISTICS = "statistics_differ"


@pytest.mark.parametrize(
    ("kind", "combine", "hazards"),
    [
        ("plain", "mean", {STATISTICS}),
        pytest.param("accumulate", "mean", set(), marks=SLOW),
        pytest.param("scaler", "mean", {STATISTICS}, marks=SLOW),
        pytest.param("ampO1", "mean", {STATISTICS}, marks=SLOW),
        pytest.param("ampO2", "mean", {STATISTICS, "gradients_rounded"}, marks=SLOW),
        pytest.param("syncbn", "mean", set(), marks=SLOW),
        pytest.param(
            "gan", "mean", {"sampler_without_set_epoch", "same_data", "accumulation_without_no_sync"}, marks=SLOW
        ),
        pytest.param("hook", "mean", {STATISTICS, "gradients_rounded"}, marks=SLOW),
        pytest.param("compiled", "mean", {STATISTICS}, marks=SLOW),
        pytest.param("data_parallel", "none", {STATISTICS, "gradients_not_shared", "weights_differ"}, marks=SLOW),
        pytest.param("averaged", "mean", {STATISTICS}, marks=SLOW),
        pytest.param("ema", "mean", {STATISTICS}, marks=SLOW),
        pytest.param("manual", "mean", {STATISTICS}, marks=SLOW),
        pytest.param("clip_first", "mean", {STATISTICS, "clipped_before_reduction"}, marks=SLOW),
        pytest.param("no_set_epoch", "mean", {STATISTICS, "sampler_without_set_epoch"}, marks=SLOW),
        pytest.param("same_data", "unknown", {"same_data"}, marks=SLOW),
        pytest.param("unused", "mean", {STATISTICS, "nothing_unused"}, marks=SLOW),
        pytest.param(
            "past_wrapper",
            "none",
            {STATISTICS, "gradients_not_shared", "forward_past_wrapper", "weights_differ"},
            marks=SLOW,
        ),
    ],
)
def test_recording_changes_no_bit_and_says_what_the_program_does(kind, combine, hazards, record, bare):
    own = {"python": sys.executable} if kind in BY_ITSELF else {}
    recorded = record("kinds", kind, **own)
    assert recorded.code == 0, recorded.errors
    assert same_weights(recorded.weights, bare("kinds", kind, **own))
    trace = Trace(recorded.trace)
    assert trace.facts["combine"] == combine
    assert {each["name"] for each in trace.facts["hazards"]} == hazards
    has_averages = {bool(trace.step(number).names("ema")) for number in trace.step_numbers}
    assert has_averages == {kind in ("averaged", "ema")}


@pytest.mark.slow
def test_a_program_of_one_process_is_recorded_as_it_is(record, bare):
    recorded = record("kinds", "plain", ranks=0)
    assert recorded.code == 0, recorded.errors
    assert same_weights(recorded.weights, bare("kinds", "plain", ranks=0))
    assert Trace(recorded.trace).facts["ranks"] == 1


@pytest.mark.slow
def test_a_skipped_step_of_a_loss_scale_is_a_step_that_moves_nothing(record):
    trace = Trace(record("kinds", "scaler").trace)
    seen = [
        (float(file.read("state/loss_scale")), bool(file.read("state/skipped"))) for file in map(trace.step, range(4))
    ]
    assert seen == [(2.0**17, False), (2.0**17, True), (2.0**16, False), (2.0**16, False)]
    before, after = (trace.step(number).read("var/head.weight") for number in (0, 1))
    assert np.array_equal(before, after)
    # Without the scale: of the size of gradients of a loss near 1.
    assert np.linalg.norm(trace.step(0).read("tower_grad/0/head.weight")) < 10


@pytest.mark.slow
def test_micro_batches_are_recorded_one_by_one(record):
    trace = Trace(record("kinds", "accumulate").trace)
    step = trace.step(0)
    assert {name.split("/")[1] for name in step.names("loss")} == {"0.0", "0.1", "1.0", "1.1"}
    parts = [step.read(f"tower_grad/{tower}/head.weight") for tower in ("0.0", "0.1", "1.0", "1.1")]
    np.testing.assert_allclose(sum(parts) / 2, step.read("grad/head.weight"), rtol=1e-5, atol=1e-7)
    assert not np.array_equal(step.read("feed/0.0/0"), step.read("feed/0.1/0"))
    assert trace.facts["backward_passes"] == 2


@pytest.mark.slow
def test_several_optimizers_have_a_section_each(record):
    trace = Trace(record("kinds", "gan").trace)
    assert set(trace.facts["sections"]) == {"opt_d", "opt_g"}
    assert {section_of(name) for name in trace.step(0).names("loss", "grad", "slot")} == {"opt_d"}
    assert {section_of(name) for name in trace.step(1).names("loss", "grad", "slot")} == {"opt_g"}


def test_a_trace_holds_what_each_rank_did_and_what_became_of_it(record):
    recorded = record("kinds", "plain", options=["--steps", "3", "--skip", "1"])
    assert recorded.code == 0, recorded.errors
    assert not recorded.weights.exists()
    trace = Trace(recorded.trace)
    assert trace.step_numbers == [0, 1, 2]
    assert (trace.facts["ranks"], trace.facts["combine"], trace.facts["ranks_agree"]) == (2, "mean", True)
    step = trace.step(0)
    own = [step.read(f"tower_grad/{rank}/head.weight") for rank in range(2)]
    combined, clipped = step.read("grad/head.weight"), step.read("clip/head.weight")
    np.testing.assert_allclose((own[0] + own[1]) / 2, combined, rtol=1e-6)
    assert np.linalg.norm(clipped) < np.linalg.norm(combined)
    assert step.read("feed/1/0").shape == (8, 8)
    assert step.read("feed/1/1").dtype == np.int64
    assert step.read("state/global_step") == 1
    before, momentum = trace.init().read("var/head.weight"), step.read("slot/momentum_buffer/head.weight")
    np.testing.assert_allclose(before - np.float32(0.1) * momentum, step.read("var/head.weight"), rtol=1e-6, atol=1e-8)
