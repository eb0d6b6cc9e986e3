"""Training programs recorded as they are: what the trace holds, and that recording changes no bit of what they do."""

import numpy as np
import pytest
import torch

from parity.trace import Trace


def same_weights(one, other):
    first, second = torch.load(one), torch.load(other)
    return list(first) == list(second) and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("program", "ranks"), [("plain_ddp", 2), ("plain_ddp", 0)])
def test_recording_changes_no_bit(program, ranks, record, bare):
    recorded = record(program, ranks=ranks)
    assert recorded.code == 0, recorded.errors
    assert same_weights(recorded.weights, bare(program, ranks=ranks))


def test_a_trace_holds_what_each_rank_did_and_what_became_of_it(record):
    recorded = record("plain_ddp", options=["--steps", "3", "--skip", "1"])
    assert recorded.code == 0, recorded.errors
    assert not recorded.weights.exists()
    trace = Trace(recorded.trace)
    assert trace.step_numbers == [0, 1, 2]
    assert (trace.facts["ranks"], trace.facts["combine"], trace.facts["ranks_agree"]) == (2, "mean", True)
    step = trace.step(0)
    own = [step.read(f"tower_grad/{rank}/3.weight") for rank in range(2)]
    combined, clipped = step.read("grad/3.weight"), step.read("clip/3.weight")
    np.testing.assert_allclose((own[0] + own[1]) / 2, combined, rtol=1e-6)
    assert np.linalg.norm(clipped) < np.linalg.norm(combined)
    assert step.read("feed/1/0").shape == (8, 8)
    assert step.read("feed/1/1").dtype == np.int64
    assert step.read("state/global_step") == 1
    before, momentum = trace.init().read("var/3.weight"), step.read("slot/momentum_buffer/3.weight")
    np.testing.assert_allclose(before - np.float32(0.1) * momentum, step.read("var/3.weight"), rtol=1e-6, atol=1e-8)
