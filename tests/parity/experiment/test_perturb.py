"""Perturbations as data: what they change, and that both sides of a comparison start from bitwise the same numbers."""

import json
import subprocess
import zlib
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from parity.experiment.perturbed import PerturbedTrace, run_candidate
from parity.experiment.recording import SidePaths
from parity.experiment.spec import RunSpec
from parity.mapping import Mapping, MappingEntry, Pair, parse_transform
from parity.mapping.states import read_all, translated, translated_batch, write_init, write_states
from parity.mapping.trace_map import Join, Renaming
from parity.trace import Perturbation, Trace, TraceError, perturb, perturbations_of

ROOT = Path(__file__).parents[3]
WEIGHTS, INPUTS = Perturbation("ulp", "var", 7, 10), Perturbation("ulp", "feed", 8, 10)
ORDER = Perturbation("sample_order", "feed", 9, 1, shards=2)
STATE = {
    "var/dense/kernel": np.arange(1, 7, dtype=np.float32).reshape(2, 3),
    "slot/momentum/dense/kernel": np.ones((2, 3), np.float32),
    "var/gates": np.linspace(-1, 1, 8, dtype=np.float32),
    "stat/mean": np.zeros(3, np.float32),
    "state/global_step": np.array(4),
}
BATCH = {"feed/x": np.arange(24, dtype=np.float32).reshape(6, 2, 2), "feed/label": np.arange(6)}


def test_an_ulp_moves_every_float_of_its_quantity_to_a_neighbour_and_nothing_else():
    moved = perturb(STATE, [WEIGHTS], 3)
    for name in ("var/dense/kernel", "var/gates"):
        up, down = (np.nextafter(STATE[name], np.float32(side)) for side in (np.inf, -np.inf))
        assert ((moved[name] == up) | (moved[name] == down)).all() and moved[name].dtype == np.float32
        assert (moved[name] == up).any() and (moved[name] == down).any()
    for name in ("slot/momentum/dense/kernel", "stat/mean", "state/global_step"):
        assert moved[name] is STATE[name]
    assert list(moved) == list(STATE)


def test_the_draw_is_decided_by_seed_and_step_and_no_version_of_numpy_may_change_it():
    moved = perturb({"var/w": np.ones(12, np.float32)}, [Perturbation("ulp", "var", 7919)])["var/w"]
    assert (moved > 1).astype(int).tolist() == [1, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0]
    assert perturb({"feed/x": np.arange(6)}, [ORDER])["feed/x"].tolist() == [2, 0, 1, 4, 5, 3]
    same = perturb({"var/w": np.ones(12, np.float32)}, [Perturbation("ulp", "var", 7917, 2)], 1)["var/w"]
    np.testing.assert_array_equal(same, moved)


def test_in_float64_an_ulp_is_float64s_and_counters_keep_their_type():
    state = {
        "var/w": np.ones(50, np.float32),
        "state/learning_rate": np.float32(0.1),
        "slot/m/w": np.ones(2, np.float32),
    }
    moved = perturb(state, [WEIGHTS], 0, "float64")
    assert set(np.abs(moved["var/w"] - 1)) == {2.0**-52, 2.0**-53}
    assert moved["slot/m/w"].dtype == np.float64 and moved["state/learning_rate"].dtype == np.float32
    assert perturb(state, (), 0, "float64")["var/w"].dtype == np.float32


def test_a_roundoff_is_a_unit_of_the_narrower_type_up_or_down():
    moved = perturb({"var/w": np.full(50, 3, np.float32)}, [Perturbation("roundoff", "var", 1, unit=2.0**-11)])["var/w"]
    assert set(moved) == {np.float32(3 * (1 + 2.0**-11)), np.float32(3 * (1 - 2.0**-11))}


def test_whole_numbers_that_are_fed_stay_for_they_may_be_labels_that_are_compared():
    fed = np.array([7.0, 1.0, -3.0, 2049.0, 0.5, 2.25], np.float32)
    batch = {"feed/x": fed, "var/w": fed, "feed/more": np.full(6, 0.1, np.float32)}
    ulp = perturb(batch, [WEIGHTS, INPUTS], 3)
    assert (ulp["feed/x"] == fed).tolist() == [True, True, True, True, False, False]
    assert not (ulp["var/w"] == fed).any(), "weights are rounded after every update"
    half = perturb(batch, [Perturbation("roundoff", "feed", 1, unit=2.0**-11)])
    assert (half["feed/x"] == fed).tolist() == [True, True, True, False, False, False], "float16 has no 2049"
    assert half["feed/x"].dtype == np.float32
    zeros = perturb({"feed/x": np.zeros(6, np.float32)}, [INPUTS])["feed/x"]
    assert zeros.all() and np.abs(zeros).max() < 2.0**-126, "a tie of what they give is broken where a program feels it"
    # What stays takes its draw all the same: what is fed beside it moves as if it were moved too.
    others = perturb({**batch, "feed/x": fed + np.float32(0.3)}, [WEIGHTS, INPUTS], 3)
    np.testing.assert_array_equal(others["feed/more"], ulp["feed/more"])


def test_variables_that_are_named_stay_and_the_others_draw_as_if_they_were_not_there():
    moved = perturb(STATE, [WEIGHTS._replace(but=("dense/kernel",))])
    assert moved["var/dense/kernel"] is STATE["var/dense/kernel"]
    alone = perturb({"var/gates": STATE["var/gates"]}, [WEIGHTS])
    np.testing.assert_array_equal(moved["var/gates"], alone["var/gates"])


def test_perturbations_follow_one_another():
    both = perturb(BATCH, [ORDER, INPUTS], 2)
    np.testing.assert_array_equal(both["feed/x"], perturb(perturb(BATCH, [ORDER], 2), [INPUTS], 2)["feed/x"])
    np.testing.assert_array_equal(np.rint(both["feed/x"][:, 0, 0] / 4), both["feed/label"])


def test_a_towers_shard_changes_places_with_the_firsts_and_statistics_are_shifted_in_float64():
    first = perturb(BATCH, [Perturbation("tower_first", "feed", 2, shards=3)])
    assert first["feed/label"].tolist() == [4, 5, 2, 3, 0, 1]
    shifted = perturb(STATE, [Perturbation("shift", "stat", unit=1.0)])["stat/mean"]
    assert shifted.tolist() == [1, 1, 1] and shifted.dtype == np.float64


def test_perturbations_travel_as_json():
    asked = [WEIGHTS._replace(but=("dense/kernel",)), ORDER]
    told = perturbations_of(json.loads(json.dumps([each._asdict() for each in asked])))
    for given in (STATE, BATCH):
        one, other = perturb(given, asked, 5), perturb(given, told, 5)
        assert all(np.array_equal(one[name], other[name]) for name in given)


def test_a_numpy_that_cannot_draw_is_told_what_to_install(monkeypatch):
    monkeypatch.delattr(np.random, "default_rng")
    with pytest.raises(TraceError, match=r"numpy: expected 1.17 or newer where a run is perturbed, got .*Upgrade"):
        perturb(STATE, [WEIGHTS])


@pytest.mark.tf1
def test_the_legacy_interpreter_draws_the_same_numbers(tf1_python):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import json, zlib, numpy as np\n"
        "from parity.trace import Perturbation, perturb\n"
        "state = {'var/w': np.linspace(1, 2, 3000).astype('float32'), 'feed/x': np.arange(3000)}\n"
        "kinds = [Perturbation('ulp', 'var', 5, 3), Perturbation('sample_order', 'feed', 6, 1, shards=3)]\n"
        "kinds.append(Perturbation('roundoff', 'var', 1, unit=2.0 ** -11))\n"
        "print([zlib.crc32(value.tobytes()) for value in perturb(state, kinds, 4).values()])\n"
    )
    done = subprocess.run([tf1_python, "-c", program, str(ROOT)], capture_output=True, text=True, timeout=60)
    state = {"var/w": np.linspace(1, 2, 3000).astype("float32"), "feed/x": np.arange(3000)}
    kinds = [Perturbation("ulp", "var", 5, 3), Perturbation("sample_order", "feed", 6, 1, shards=3)]
    kinds.append(Perturbation("roundoff", "var", 1, unit=2.0**-11))
    wanted = [zlib.crc32(value.tobytes()) for value in perturb(state, kinds, 4).values()]
    assert done.stdout.strip() == str(wanted), done.stderr


# Both sides of a run: what the candidate is given is what the reference makes for itself, carried over.


class Torch:
    """A candidate that reads what it is asked to run, as its worker does, and fails where it is told to."""

    def __init__(self, error=None):
        self.asked, self.batches, self.states, self._error = None, [], [], error

    def run(self, asked):
        self.asked, future = asked, Future()
        feeds, follow = Trace(asked.feeds), Trace(asked.follow) if asked.follow else None
        for step in asked.steps:
            state = read_all(follow.step(step)) if follow else read_all(Trace(asked.start).init())
            copied = {name: np.array(value) for name, value in read_all(feeds.step(step)).items()}
            self.batches.append(perturb(copied, asked.perturbations, step, asked.precision))
            self.states.append(
                perturb({n: np.array(v) for n, v in state.items()}, asked.perturbations, step, asked.precision)
            )
        if self._error:
            future.set_exception(self._error)
        else:
            future.set_result("trace")
        return future


def sides(tmp_path, torch, layout=None):
    pairs = [
        Pair("dense/kernel", ("fc.weight",), parse_transform("transpose"), "", (2, 3)),
        Pair("gates", ("bias_ih", "bias_hh"), parse_transform("lstm_bias(1.0)"), "", (8,)),
        Pair("mean", ("mean",), parse_transform("identity"), "", (3,)),
    ]
    names = {"feed": Renaming("feed", {"x": MappingEntry(to=("images",), transform=layout)})}
    join = Join(Mapping(pairs), names, ["momentum"])
    steps = [0, 1, 2]
    batches = {n: {name: value + n for name, value in BATCH.items()} for n in steps}
    feeds = SidePaths(
        write_states(tmp_path / "feeds" / "tf", batches.items()),
        write_states(tmp_path / "feeds" / "torch", ((n, translated_batch(join, b)) for n, b in batches.items())),
    )
    start = SidePaths(
        write_init(tmp_path / "start" / "tf", STATE), write_init(tmp_path / "start" / "torch", translated(join, STATE))
    )
    states = SidePaths(
        write_states(tmp_path / "states" / "tf", ((n, STATE) for n in steps)),
        write_states(tmp_path / "states" / "torch", ((n, translated(join, STATE)) for n in steps)),
    )
    return SimpleNamespace(torch=torch, feeds=feeds, start=start, steps=steps, out=tmp_path), join, states


def asked_of(playing, states, perturbations, steps=(0, 2)):
    follow = states.tf if states else None
    feeds, start = playing.feeds.tf, playing.start.tf
    return RunSpec("ulp-0", "float32", feeds, start, follow, ("var",), steps, perturbations=perturbations)


def same(one, other):
    return list(one) == list(other) and all(one[n].tobytes() == other[n].tobytes() for n in one)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("perturbations", [(WEIGHTS, INPUTS), (ORDER, WEIGHTS, INPUTS), (ORDER,)])
def test_the_candidate_starts_from_bitwise_what_the_reference_starts_from(tmp_path, perturbations, free):
    torch = Torch()
    playing, join, states = sides(tmp_path, torch)
    asked = asked_of(playing, None if free else states, perturbations)
    before = sorted(tmp_path.rglob("*"))
    assert run_candidate(playing, join, asked, None if free else states.torch).result() == "trace"
    for place, step in enumerate(asked.steps):
        batch = perturb(read_all(Trace(asked.feeds).step(step)), perturbations, step)
        state = perturb(STATE, perturbations, 0 if free else step)
        assert same(torch.batches[place], translated_batch(join, batch))
        if not free or not place:  # a free run reads its start once
            assert same(torch.states[place], translated(join, state))
    assert sorted(tmp_path.rglob("*")) == before, "a perturbed run left something on disk"


def test_another_order_of_the_examples_is_told_and_not_written(tmp_path):
    torch = Torch()
    playing, join, states = sides(tmp_path, torch)
    run_candidate(playing, join, asked_of(playing, states, (ORDER,)), states.torch).result()
    assert (torch.asked.feeds, torch.asked.perturbations) == (playing.feeds.torch, (ORDER,))


def test_examples_that_are_no_longer_first_in_the_candidates_layout_change_places_all_the_same(tmp_path):
    torch = Torch()
    playing, join, states = sides(tmp_path, torch, "ntc_to_tnc")
    asked = asked_of(playing, states, (ORDER,), (1,))
    run_candidate(playing, join, asked, states.torch).result()
    moved = perturb(read_all(Trace(asked.feeds).step(1)), [ORDER], 1)
    assert same(torch.batches[0], translated_batch(join, moved))


def test_a_run_that_fails_leaves_nothing_either(tmp_path):
    playing, join, states = sides(tmp_path, Torch(RuntimeError("no")))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RuntimeError, match="no"):
        run_candidate(playing, join, asked_of(playing, states, (WEIGHTS,)), states.torch).result()
    assert sorted(tmp_path.rglob("*")) == before


def test_the_states_of_a_perturbed_run_are_computed_once_more(tmp_path):
    states = write_states(tmp_path / "states", ((n, STATE) for n in (0, 1)))
    trace = PerturbedTrace(states, [WEIGHTS], "float32")
    for step in (0, 1, 0):
        file = trace.step(step)
        assert file.names() == list(STATE) and "var/gates" in file and "var/none" not in file
        assert (file.shape("var/gates"), file.dtype("var/gates")) == ((8,), "float32")
        assert same({n: np.asarray(file.read(n)) for n in file.names()}, perturb(STATE, [WEIGHTS], step))
