"""One trace of what the ranks of a program recorded: how gradients were combined, what is hazardous, what is missing."""

import numpy as np
import pytest
from rank_folders import gradients, leave_ranks, mean, tensors_of

from parity.record.combination import combination_of, settle_clipping
from parity.record.merge import merge
from parity.trace import Trace, TraceError


def combined(local, others, given=None, clipped=None):
    """What is inferred of ranks with gradients `local`, of which each holds `others` then."""
    ranks = range(len(local))
    return combination_of(
        [
            tensors_of(rank, local[rank], others[rank], given and given[rank], clipped and clipped[rank])
            for rank in ranks
        ]
    )


def scaled(gradients, factor):
    return {name: value * np.float32(factor) for name, value in gradients.items()}


LOCAL = gradients()
MEAN = mean(LOCAL)


@pytest.mark.parametrize(
    ("held", "kind"),
    [
        ([MEAN, MEAN], "mean"),
        ([scaled(MEAN, 2), scaled(MEAN, 2)], "sum"),
        (LOCAL, "none"),
        ([LOCAL[1], LOCAL[1]], "one rank's"),
        ([scaled(MEAN, 1.0009), scaled(MEAN, 1.0009)], "mean"),  # 0.9e-3 of itself from it, where 1e-3 is the limit
        ([scaled(MEAN, 1.0011), scaled(MEAN, 1.0011)], "other"),
    ],
)
def test_how_gradients_are_combined_is_inferred_from_numbers(held, kind):
    assert combined(LOCAL, held).kind == kind


def rounded(gradients, bits):
    """To so many bits, as a hook does that compresses."""
    return {
        name: np.ldexp(np.round(np.ldexp(np.frexp(value)[0], bits)), np.frexp(value)[1] - bits).astype(np.float32)
        for name, value in gradients.items()
    }


def test_a_mean_in_half_precision_is_one_and_is_known_as_rounded():
    found = combined(LOCAL, [rounded(MEAN, 8)] * 2)
    assert found.kind == "mean"
    assert 1e-4 < found.rounded < 2.0**-8
    assert combined(LOCAL, [MEAN, MEAN]).rounded == 0.0
    assert combined(LOCAL, [rounded(MEAN, 4)] * 2).kind == "other"


def test_micro_batches_of_a_rank_are_added_up_first():
    local = gradients(4)
    towers = [
        {
            **tensors_of(rank, {}, MEAN),
            **{f"tower_grad/{rank}.{k}/{n}": v for k in range(2) for n, v in local[2 * rank + k].items()},
        }
        for rank in range(2)
    ]
    total = {name: sum(each[name] for each in local) / 2 for name in local[0]}
    for each in towers:
        each.update((f"grad/{name}", value) for name, value in total.items())
    assert combination_of(towers).kind == "mean"


def test_ranks_with_one_gradient_do_not_show_how_it_is_combined():
    assert combined([LOCAL[0], LOCAL[0]], [LOCAL[0], LOCAL[0]]).kind == "unknown"
    assert combined([LOCAL[0], LOCAL[0]], [scaled(LOCAL[0], 2)] * 2).kind == "sum"


def test_a_mean_that_is_clipped_by_hand_is_known_by_one_number_for_all_ranks():
    found = combined(LOCAL, [scaled(MEAN, 0.3)] * 2)
    assert found.kind == "other"
    assert found.weights == pytest.approx((0.15, 0.15), rel=1e-5)


def test_ranks_that_clip_their_own_gradients_before_the_reduction_are_found():
    clipped = [scaled(LOCAL[0], 0.5), scaled(LOCAL[1], 0.25)]
    found = combined(LOCAL, LOCAL, given=[mean(clipped)] * 2, clipped=clipped)
    assert (found.kind, found.clipped_first) == ("mean", True)
    settled = settle_clipping(tensors_of(0, LOCAL[0], LOCAL[0], mean(clipped), clipped[0]), clipped_first=True)
    assert np.array_equal(settled["grad/weight"], mean(clipped)["weight"])
    assert "tower_clip/0/weight" in settled and "clip/weight" not in settled


def test_clipping_behind_the_reduction_leaves_combined_and_clipped_gradients():
    given = [scaled(MEAN, 0.5)] * 2
    found = combined(LOCAL, [MEAN, MEAN], given=given, clipped=given)
    assert (found.kind, found.clipped_first) == ("mean", False)
    settled = settle_clipping(tensors_of(0, LOCAL[0], MEAN, given[0], given[0]), clipped_first=False)
    assert np.array_equal(settled["clip/weight"], given[0]["weight"])
    assert "tower_clip/0/weight" not in settled


def test_gradients_that_became_one_behind_the_backward_pass_are_not_taken_for_clipped(tmp_path):
    steps = [[tensors_of(rank, LOCAL[rank], LOCAL[rank], given=MEAN) for rank in range(2)]]
    trace = merge(leave_ranks(tmp_path / "ranks", steps), str(tmp_path / "out"), whole=True)
    assert trace.facts["combine"] == "mean"
    assert np.array_equal(trace.step(0).read("grad/weight"), MEAN["weight"])
    assert trace.step(0).names("clip") == []


ONE_OF_TWO = {"weight": MEAN["weight"], "bias": 0.5 * MEAN["bias"]}


@pytest.mark.parametrize(
    ("given", "scale", "clipping"),
    [
        (scaled(MEAN, 0.5), 0.5, ""),
        (scaled(MEAN, 2.0), 2.0, ""),
        ({"weight": MEAN["weight"]}, 1.0, ""),
        (scaled(MEAN, 0.37), 1.0, "after combining"),
        (ONE_OF_TWO, 1.0, "after combining"),
    ],
    ids=["by_ranks", "enlarged", "one_dropped", "by_its_norm", "one_of_two"],
)
def test_a_number_that_multiplies_combined_gradients_is_told_from_clipping(tmp_path, given, scale, clipping):
    facts = merged(tmp_path, both(given=[given] * 2)).facts
    assert (round(facts["scaled"], 6), facts["clipping"]) == (scale, clipping)


def merged(tmp_path, *steps, facts=({}, {}), whole=True):
    return merge(leave_ranks(tmp_path / "ranks", steps, facts), str(tmp_path / "out"), whole)


def hazards(trace):
    return {each["name"]: each["evidence"] for each in trace.facts["hazards"]}


def both(**named):
    """Two ranks that average, with what differs between them by name: a pair."""
    return [
        tensors_of(rank, LOCAL[rank], MEAN, **{name: value[rank] for name, value in named.items()}) for rank in range(2)
    ]


def test_a_trace_has_the_towers_of_all_ranks_and_the_rest_of_the_first(tmp_path):
    trace = merged(tmp_path, both(), both())
    assert trace.complete and trace.step_numbers == [0, 1]
    assert {"feed/0/x", "feed/1/x", "tower_grad/1/bias", "grad/bias", "var/weight"} <= set(trace.step(1).names())
    assert (trace.facts["ranks"], trace.facts["ranks_agree"]) == (2, True)
    assert hazards(trace) == {}


@pytest.mark.parametrize(
    ("step", "facts", "name", "evidence"),
    [
        (both(var=(0, 1)), {}, "weights_differ", "1 differ between the ranks after step 0: weight"),
        (both(rate=(0.1, 0.2)), {}, "learning_rates_differ", "step 0 has the learning rates 0.1, 0.2 on its ranks"),
        (
            both(feed=(np.ones((4, 2)) + np.arange(2),) * 2),
            {},
            "same_data",
            "ranks 0 and 1 train on the very same batch in step 0",
        ),
        (
            both(feed=(np.eye(4, dtype=bool),) * 2),
            {},
            "same_data",
            "ranks 0 and 1 train on the very same batch in step 0",
        ),
        (
            both(feed=(np.ones((4, 2)), np.ones((3, 2)))),
            {},
            "uneven_shards",
            "the ranks train on 4, 3 examples in step 0",
        ),
        (
            [tensors_of(rank, LOCAL[rank], LOCAL[rank]) for rank in range(2)],
            {},
            "gradients_not_shared",
            "no gradient is shared between 2 ranks in step 0: bias, weight",
        ),
        (
            [tensors_of(rank, LOCAL[rank], scaled(MEAN, 2)) for rank in range(2)],
            {},
            "gradients_summed",
            "the gradients of 2 ranks are added up in step 0, and not divided",
        ),
        (
            [tensors_of(rank, LOCAL[rank], {**MEAN, "bias": LOCAL[rank]["bias"]}) for rank in range(2)],
            {"outside_wrapper": ["bias"]},
            "parameters_outside_wrapper",
            "1 trained parameters are in no DistributedDataParallel: bias",
        ),
        (
            both(),
            {"samplers": [{"shuffle": True, "epochs": [0, 0]}]},
            "sampler_without_set_epoch",
            "a DistributedSampler began 2 epochs as epochs 0, 0",
        ),
        (
            both(),
            {"wrappers": [{"name": "DistributedDataParallel", "model": "Net", "find_unused_parameters": True}]},
            "nothing_unused",
            "find_unused_parameters=True, and all 2 parameters get a gradient in step 0",
        ),
        (
            both(),
            {"forwards": {"past_wrapper": 3}},
            "forward_past_wrapper",
            "3 forward passes with gradients called the model inside of DistributedDataParallel, not the wrapper",
        ),
    ],
)
def test_a_hazard_is_named_with_its_evidence_and_alone(tmp_path, step, facts, name, evidence):
    assert hazards(merged(tmp_path, step, facts=(facts, facts))) == {name: evidence}


def test_a_parameter_that_one_rank_does_not_use_is_unused(tmp_path):
    wrapped = {"wrappers": [{"name": "DistributedDataParallel", "model": "Net", "find_unused_parameters": True}]}
    first, second = both()
    second = {key: value for key, value in second.items() if key != "tower_grad/1/bias"}
    assert "nothing_unused" not in hazards(merged(tmp_path, [first, second], facts=(wrapped, wrapped)))


def test_accumulation_that_reduces_in_every_pass_is_named(tmp_path):
    wrapped = {"wrappers": [{"name": "DistributedDataParallel", "model": "Net", "broadcast_buffers": True}]}
    step = [{**tensors, f"loss/{rank}.1": np.array(1.0)} for rank, tensors in enumerate(both())]
    for passes, expected in (({"sync": 4}, {"accumulation_without_no_sync"}), ({"sync": 2, "no_sync": 2}, set())):
        own = {**wrapped, "passes": passes}
        assert set(hazards(merged(tmp_path / str(len(passes)), step, facts=(own, own)))) == expected


def test_no_sync_that_leaves_the_forward_pass_out_is_named(tmp_path):
    wrapped = {"wrappers": [{"name": "DistributedDataParallel", "model": "Net", "broadcast_buffers": True}]}
    step = [{**tensors, f"loss/{rank}.1": np.array(1.0)} for rank, tensors in enumerate(both())]
    own = {**wrapped, "passes": {"sync": 4, "no_sync_too_late": 2}}
    evidence = hazards(merged(tmp_path, step, facts=(own, own)))["accumulation_without_no_sync"]
    assert evidence.endswith("though some are in no_sync, for their forward passes were not")


def test_a_rank_that_did_not_end_well_leaves_no_trace_that_looks_whole(tmp_path):
    ranks = leave_ranks(tmp_path / "ranks", [both(), [both()[0], None]], ({}, {"closed": False}))
    assert (ranks.complete, ranks.steps()) == (False, [0])
    merge(ranks, str(tmp_path / "out"), whole=ranks.complete)
    with pytest.raises(TraceError, match="stopped early"):
        Trace(tmp_path / "out")


def test_a_rank_that_is_missing_leaves_no_step(tmp_path):
    ranks = leave_ranks(tmp_path / "ranks", [both()], ({"world_size": 3}, {"world_size": 3}))
    assert (ranks.all_there, ranks.steps()) == (False, [])
