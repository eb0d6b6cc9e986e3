"""Every mutation of the bench, planted once: found where it can show first, and called by its name."""

import importlib
import sys
from pathlib import Path

import pytest

from parity.case import load_case
from parity.experiment import keep_golden, run_case
from parity.experiment.plant import Planted, plant
from torch_ddp.mutations import MUTATIONS, mutation

ROOT = Path(__file__).parents[2]


BENCH = ROOT / "benchmarks" / "bugs"


@pytest.fixture(scope="module")
def nets():
    """The bench's own tables of nets, optimizers and bugs of the update."""
    sys.path.insert(0, str(BENCH))
    try:
        yield importlib.import_module("nets")
    finally:
        sys.path.remove(str(BENCH))
        for name in ("nets", "tables"):
            sys.modules.pop(name, None)


def smallest(nets, bug):
    """The first net of the bench that can have a bug."""
    return next(net for net in nets.NETS if nets.fits(net, bug))


def right_case(nets, bug, net=None, otherwise="adam"):
    case = load_case(ROOT / "examples" / (net or smallest(nets, bug)), steps=3, towers=2, batch_size=12)
    wanted = [need for need in bug.needs if need in nets.OPTIMIZERS]
    return case.model_copy(update={"optimizer": nets.OPTIMIZERS[wanted[0] if wanted else otherwise]})


def test_the_bench_has_at_least_sixty_kinds_of_bugs_and_a_net_for_each(nets):
    assert len(MUTATIONS) + len(nets.TABLES) >= 60
    for bug in MUTATIONS.values():
        assert smallest(nets, bug)
        assert bug.causes and bug.first


@pytest.fixture(scope="module")
def golden_of(tf2_sides, tmp_path_factory):
    """Returns the golden trace of a right case: of many bugs in one net TensorFlow is the same."""
    known = {}

    def golden(case):
        key = (case.name, case.optimizer.name)
        if key not in known:
            folder = tmp_path_factory.mktemp("golden")
            assert run_case(case, tf2_sides, ("function",), out=folder / "recorded", blessing=True).verdict == "same"
            keep_golden(case, folder / "recorded", folder / "golden")
            known[key] = folder / "golden"
        return known[key]

    return golden


# What a golden trace cannot be asked again for: steps with other statistics, outputs that settle how a kernel is laid out.
LIVE = {
    "statistics_of_the_last_rank",
    "inputs_in_float16",
    "the_decay_of_the_graph_is_missing",
    "another_decay_than_the_graphs",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_found_and_named(tf2_sides, golden_of, tmp_path, nets, name):
    bug = MUTATIONS[name]
    right = right_case(nets, bug)
    case = plant(right, Planted(name), tmp_path / "planted", bug.family == "optimizer")
    result = run_case(case, tf2_sides, levels=("function",), golden=None if name in LIVE else golden_of(right))
    assert result.exit_code != 0
    assert result.first_difference.quantity in bug.first
    assert result.causes[0].name in bug.causes, [cause.title for cause in result.causes]
    assert result.causes[0].evidence and result.causes[0].fix


# Where a net hides part of a bug: a norm takes a shift out, one bias of the graph is two of the port, gradients are small.
ELSEWHERE = [
    ("inputs_centred_elsewhere", "video_moe"),
    ("the_other_variance_moves", "video_moe"),
    ("weights_decay_beside_the_update", "text_lstm"),
    ("clipped_by_global_norm", "text_lstm"),
    ("clipped_by_value", "text_lstm"),
    ("epsilon_outside_the_root_of_rmsprop", "digits_convnet"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "net"), ELSEWHERE)
def test_a_planted_bug_is_named_where_the_net_hides_part_of_it(tf2_sides, tmp_path, nets, name, net):
    bug = MUTATIONS[name]
    case = right_case(nets, bug, net, otherwise="momentum")
    planted = plant(case, Planted(name, 0.01), tmp_path / "planted", bug.family == "optimizer")
    result = run_case(planted, tf2_sides, levels=("function",))
    assert result.first_difference.quantity in bug.first
    assert [cause.name for cause in result.causes] == list(bug.causes)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(12))
def test_a_bug_around_the_update_is_found_and_named(tf2_sides, nets, place):
    assert len(nets.TABLES) == 12
    bug = nets.TABLES[place]
    case = load_case(ROOT / "examples" / "digits_mlp", steps=3, towers=2, batch_size=12)
    case = case.model_copy(update={"optimizer": nets.FULL})
    told = importlib.import_module("tables").told
    result = run_case(case, told(tf2_sides, bug, 1.0), levels=("function",))
    assert result.exit_code != 0
    assert result.first_difference.quantity in bug.first
    assert result.causes[0].name in bug.causes, [cause.title for cause in result.causes]


@pytest.mark.slow
def test_two_bugs_at_once_are_both_named(tf2_sides, tmp_path, nets):
    case = load_case(ROOT / "examples" / "digits_mlp", steps=3, towers=2, batch_size=12)
    case = case.model_copy(update={"optimizer": nets.OPTIMIZERS["momentum"]})
    bugs = [
        Planted("the_last_rank_counts_more", 0.1),
        Planted("another_momentum", 0.1),
        Planted("nesterov_nobody_asked_for"),
    ]
    result = run_case(plant(case, bugs, tmp_path / "planted", True), tf2_sides, levels=("function",))
    assert [cause.name for cause in result.causes] == ["some_towers", "momentum", "nesterov"]


def test_a_mutation_is_registered_once():
    with pytest.raises(ValueError, match="expected a new name, got 'uphill' again"):
        mutation("optimizer")(MUTATIONS["uphill"].plant)
