"""From two sides to a result: what is judged, what is set aside, and what a report says beside the verdict."""

import pytest
from support.made_sides import CASE, MEAN, Habits, MadeProcess, made_case, made_sides

from parity.experiment import run_case
from parity.experiment.power import PROBES, prove
from parity.experiment.sides.golden_side import keep_golden
from parity.worker.failures import SideFailed

RACING = (("racing_statistics", [MEAN]),)
MIXED = CASE.replace("[torch]", '[torch]\nopt_level = "O1"\nhalf_dtype = "float16"')
SHORT = CASE.replace("steps = 4", "steps = 2")
LEVELS = ("function", "float32", "trajectory", "mixed")
PLAIN = Habits(backwards=True)


def judged(folder, tf=None, torch=None, text=CASE, levels=("function",), **more):
    sides = made_sides(folder, tf, torch)
    return sides, run_case(made_case(folder / "case", text), sides, levels, folder / "out", **more)


@pytest.mark.parametrize(
    ("port", "first", "cause"),
    [
        (Habits(backwards=True, rate=1.001), "state/learning_rate", "learning_rate"),
        (Habits(backwards=True, loss=2.0), "loss/0", "gradient_factor"),
        (Habits(backwards=True, decay=0.99), "stat/norm/moving_mean", "batch_norm_momentum"),
    ],
)
def test_a_bug_is_found_where_it_is_and_named(tmp_path, port, first, cause):
    _, result = judged(tmp_path, None, port, levels=("function", "float32"))
    assert (result.verdict, result.exit_code) == ("different", 1)
    assert (result.first_difference.check.key, result.first_difference.check.step) == (first, 0)
    assert result.causes[0].name == cause
    assert result.levels["float32"].verdict == "different"


@pytest.mark.slow
def test_no_seed_of_twenty_raises_an_alarm_on_arrays(tmp_path):
    case, sides = made_case(tmp_path / "case", SHORT), made_sides(tmp_path)
    results = [run_case(case.model_copy(update={"seed": seed}), sides, LEVELS[:2]) for seed in range(20)]
    assert {seed: each.first_difference for seed, each in enumerate(results) if each.verdict != "same"} == {}
    # Each seed has weights and batches of its own.
    assert len({max(check.size for check in each.levels["function"].checks) for each in results}) == 20


def test_level_3_alone_sees_a_rate_that_is_off_by_a_hundredth(tmp_path):
    _, result = judged(tmp_path, None, Habits(backwards=True, rate=1.01), SHORT, levels=("trajectory",))
    level = result.levels["trajectory"]
    assert (result.verdict, level.verdict, level.first_difference.check.run) == ("different", "different", "free")
    # What it would have seen of other bugs is asked of a right port alone.
    assert not [note for note in level.notes if note.startswith("power")]


def test_nothing_can_match_a_reference_that_draws_in_every_run(tmp_path):
    reference = Habits(wandering=0.01, facts=(("random_ops", ["drop/Random"]),))
    _, result = judged(tmp_path, reference, levels=("function", "float32"))
    assert result.levels["function"].verdict == "incomparable"
    note = result.levels["function"].notes[0]
    assert note.startswith("the reference does not repeat itself: run-to-run difference 0.01")
    assert "(drop/Random)" in note
    assert [repeat.comparable for repeat in result.repeats] == [False, True]


@pytest.mark.parametrize(("survivor", "decay", "verdict"), [(0, 0.9, "same"), (1, 0.9, "same"), (1, 0.91, "different")])
def test_a_statistic_that_towers_race_for_may_be_any_towers(tmp_path, survivor, decay, verdict):
    reference = Habits(facts=RACING, survivor=survivor, decay=decay)
    sides, result = judged(tmp_path, reference, Habits(backwards=True), levels=("function", "float32"))
    checks = result.levels["function"].checks
    assert result.verdict == verdict
    of_mean = [check for check in checks if check.key == f"stat/{MEAN}" and check.run == "lockstep"]
    orders = {check.note for check in of_mean}
    assert len(of_mean) == 4 and len(orders) == 1
    assert {check.verdict for check in of_mean} == {verdict}
    (note,) = [note for note in result.levels["function"].notes if note.startswith("the reference races")]
    counted, seen = ("4 of 4", 1) if verdict == "same" else ("0 of 4", 0)
    assert f"{counted} are what one of the possible orders gives (orders seen: {seen})" in note
    # Free runs leave every step to another order: neither the statistic nor what is evaluated by it is judged there.
    free = {check.key for check in checks if check.run == "free" and check.verdict == "not_run"}
    assert free == {f"stat/{MEAN}", "eval/loss"}
    first = [sides.torch.runs[f"tower-1-first-{precision}"] for precision in ("float64", "float32")]
    moved = sides.torch.runs["statistics-moved"]
    for asked in (*first, moved):
        assert (asked["quantities"], list(asked["steps"])) == (("stat",), [0, 1, 2, 3])
        assert asked["follow"] == str(tmp_path / "out" / "states" / "torch")
    assert [(each["kind"], each["seed"], each["shards"]) for each in first[0]["perturbations"]] == [
        ("tower_first", 1, 2)
    ]
    assert [(each["kind"], each["quantity"], each["unit"]) for each in moved["perturbations"]] == [
        ("shift", "stat", 1.0)
    ]
    assert not [name for side in (sides.tf, sides.torch) for name in side.runs if "beside" in name]


def test_level_4_runs_the_port_in_half_precision_beside_its_own_float32(tmp_path):
    sides, result = judged(tmp_path, None, None, MIXED, ("function", "mixed"))
    level = result.levels["mixed"]
    assert (level.verdict, level.notes) == ("same", ["O1 in float16; the names are the port's"])
    assert level.reason.startswith("76 tensors; at most ") and level.reason.endswith(
        " of what half precision may round"
    )
    runs = sides.torch.runs
    mixed, full, free = (runs[name] for name in ("mixed", "full", "mixed-free"))
    half = "{'opt_level': 'O1', 'half_dtype': 'float16'}"
    assert [half in asked["prepared"] for asked in (mixed, full, free)] == [True, False, True]
    assert [asked["recorded_counters"] for asked in (mixed, full, free)] == [True, True, False]
    assert [asked["follow"] is None for asked in (mixed, full, free)] == [False, False, True]
    assert "act" in mixed["quantities"] and "act" not in free["quantities"]
    for number in range(4):
        asked = runs[f"half-{number}"]
        assert (asked["noise"], asked["recorded_counters"]) == ((2.0**-11, number), True)
        assert [
            (each["kind"], each["quantity"], each["seed"], each["seed_per_step"], each["unit"])
            for each in asked["perturbations"]
        ] == [
            ("roundoff", "var", 31 * number, 1009, 2.0**-11),
            ("roundoff", "feed", 37 * number, 1013, 2.0**-11),
        ]
    assert "half-4" not in runs


@pytest.mark.parametrize(
    ("overflows", "reason", "skipped"),
    [
        ((1,), "70 tensors", "1 of 4"),
        ((0, 1, 2, 3), "every step is skipped: the gradients overflow at every loss", "4 of 4"),
    ],
)
def test_steps_that_level_4_skips_are_counted_and_to_skip_all_is_no_success(tmp_path, overflows, reason, skipped):
    _, result = judged(tmp_path, None, Habits(overflows=overflows), MIXED, ("function", "mixed"))
    level = result.levels["mixed"]
    assert level.reason.startswith(reason)
    assert level.verdict == ("different" if len(overflows) == 4 else "same")
    for run in ("lockstep", "free run"):
        assert f"{run}: {skipped} steps were skipped because gradients overflowed" in level.notes


def test_a_bug_that_half_precision_alone_has_is_found_in_lockstep_first(tmp_path):
    port = Habits(halves_loss=1.5)
    _, result = judged(tmp_path, None, port, MIXED, ("function", "mixed"))
    level = result.levels["mixed"]
    assert (result.levels["function"].verdict, level.verdict) == ("same", "different")
    first = level.first_difference.check
    assert (first.run, first.step, first.key) == ("lockstep", 0, "loss/0")


@pytest.mark.parametrize(
    ("anew", "words"),
    [
        (False, "the candidate computes in less than float32: look for TensorFloat-32 or bfloat16"),
        (True, "the candidate does not repeat itself: run-to-run difference "),
    ],
)
def test_a_port_that_is_rough_in_float32_alone_is_different_there(tmp_path, anew, words):
    port = Habits(backwards=True, blur=2.0**-9, anew=anew)
    _, result = judged(tmp_path, None, port, levels=("function", "float32"))
    assert result.levels["function"].verdict == "same"
    assert result.levels["float32"].verdict == "different"
    assert result.levels["float32"].reason.startswith(words)


@pytest.mark.parametrize(
    ("tf", "torch", "note"),
    [
        (("grad/dense/bias",), ("grad/dense.bias",), "no gradient at all: dense/bias"),
        ((), (), None),
    ],
)
def test_weights_of_which_nothing_is_proven_are_named(tmp_path, tf, torch, note):
    _, result = judged(tmp_path, Habits(hidden=tf), Habits(backwards=True, hidden=torch))
    told = [each for each in result.levels["function"].notes if "gradient" in each]
    assert told == ([note] if note else [])


def test_gradients_that_are_zero_in_every_step_prove_nothing(tmp_path):
    _, result = judged(tmp_path, Habits(loss=0.0), Habits(backwards=True, loss=0.0))
    assert result.verdict == "same"
    (note,) = [each for each in result.levels["function"].notes if "never non-zero" in each]
    assert note.startswith("gradient never non-zero, so nothing is proven about: ")
    assert set(note.partition(": ")[2].split(", ")) == {"dense/kernel", "dense/bias"}


def test_ops_that_compute_in_float32_whatever_they_are_fed_are_named(tmp_path):
    _, result = judged(tmp_path, Habits(facts=(("float32_in_float64", ["net.py:3", "net.py:9"]),)))
    (note,) = [each for each in result.levels["function"].notes if each.startswith("the graph computes in float32")]
    assert "though it is fed float64, at net.py:3, net.py:9 (everything in tf.losses does)" in note


class Untakeable(MadeProcess):
    """A port that takes no bug that is planted in its code."""

    def _prepare(self, case, **asked):
        if case["model"] == "mutant:Model":
            raise SideFailed("torch", "no such module")
        return super()._prepare(case=case, **asked)


def test_a_bug_that_a_port_cannot_carry_says_nothing_and_leaves_nothing_behind(tmp_path):
    sides = made_sides(tmp_path)
    sides.torch = Untakeable("torch", PLAIN)
    result = run_case(made_case(tmp_path / "case", SHORT), sides, ("trajectory", "mixed"), tmp_path / "out")
    told = [note for note in result.levels["trajectory"].notes if note.startswith("power")]
    assert len(told) == 1 and told[0].startswith("power: would have seen a learning rate off by 1% (")
    assert not list((tmp_path / "out" / "planted").iterdir())


@pytest.mark.parametrize(
    ("text", "levels", "reasons", "unjudged"),
    [
        (CASE, ("function", "mixed"), {"mixed": 'the port runs in float32: [torch] opt_level = "O0"'}, 1),
        (
            CASE.replace("batches =", 'precision = "float64"\nbatches ='),
            ("function", "float32", "mixed"),
            dict.fromkeys(
                ("float32", "mixed"), 'the case trains in float64, which level 1 has decided: precision = "float64"'
            ),
            0,
        ),
        (CASE, ("function",), dict.fromkeys(LEVELS[1:], "not requested"), 0),
    ],
)
def test_a_level_that_is_not_run_says_why_and_counts_only_where_it_was_asked_for(
    tmp_path, text, levels, reasons, unjudged
):
    _, result = judged(tmp_path, None, None, text, levels)
    assert {name: result.levels[name].reason for name in reasons} == reasons
    assert {result.levels[name].verdict for name in reasons} == {"not_run"}
    assert len(result.unjudged) == unjudged and result.exit_code == 0


def test_level_3_needs_a_live_reference(tmp_path):
    judged(tmp_path, levels=("function",), blessing=True)
    case = made_case(tmp_path / "case")
    keep_golden(case, tmp_path / "out", tmp_path / "golden")
    sides = made_sides(tmp_path)
    sides.tf = sides.data = None
    result = run_case(case, sides, ("function", "trajectory"), golden=tmp_path / "golden")
    assert result.levels["trajectory"].reason == "a golden trace holds no perturbed runs; level 3 needs live TensorFlow"
    assert (result.verdict, result.unjudged) == ("same", [f"level trajectory: {result.levels['trajectory'].reason}"])
    assert [repeat.side for repeat in result.repeats] == ["candidate"]


def test_what_hides_parts_is_said_beside_the_verdict(tmp_path):
    weak = CASE.replace("batches =", 'init = "model"\nbatches =').replace(
        'model = "model_torch:Model"', 'model = "model_torch:Model"\noptimizer = "model_torch:optimizer"'
    )
    _, result = judged(tmp_path, None, None, weak)
    assert [note for note in result.notes if note.startswith('init = "model": zero biases')]
    _, plain = judged(tmp_path / "plain")
    assert not [note for note in plain.notes if note.startswith("init")]


def test_ranks_that_end_with_other_weights_are_different(tmp_path):
    port = Habits(backwards=True, facts=(("ranks_agree", False),))
    _, result = judged(tmp_path, None, port, SHORT, ("function", "trajectory"))
    assert [result.levels[name].verdict for name in ("function", "trajectory")] == ["different", "different"]


def test_a_side_that_fails_ends_the_run_and_leaves_no_folder_and_nothing_under_way(tmp_path):
    sides = made_sides(tmp_path, None, Habits(fails=("float64",)))
    with pytest.raises(SideFailed, match="run float64 fails"):
        run_case(made_case(tmp_path / "case"), sides)
    assert [side.settled for side in sides.started] == [1, 1, 1]


def test_sides_serve_again_after_experiments_that_a_port_did_not_take(tmp_path):
    sides, _ = judged(tmp_path)
    assert {side.outlived for side in sides.started} == {1}


def test_a_closer_look_holds_what_differs_and_the_losses(tmp_path):
    _, plain = judged(tmp_path / "plain", None, Habits(backwards=True, rate=1.01))
    assert (plain.closer, plain.losses) == ([], [])
    port, levels = Habits(backwards=True, rate=1.01), ("function", "float32", "trajectory")
    _, result = judged(tmp_path, None, port, SHORT, levels, in_detail=True)
    assert {each.level for each in result.closer} == {"function", "float32", "trajectory"}
    assert {(each.level, each.run) for each in result.losses} == {
        ("function", "free"),
        ("float32", "lockstep"),
        ("trajectory", "free"),
    }


def test_bugs_are_planted_one_at_a_time_and_clean_runs_have_other_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr("parity.experiment.power.PROBES", PROBES[:2])
    sides, told = made_sides(tmp_path), []
    case = made_case(tmp_path / "case")
    power = prove(case, sides, True, lambda *progress: told.append(progress))
    seeds = [asked["seed"] for request, asked in sides.data.asked if request == "batches"]
    # As many runs of each planted bug as there are, on the case's own batches, then three of the right port on others.
    assert seeds == [0] * len(power.outcomes) + [1, 2, 3]
    assert {asked["steps"] for request, asked in sides.data.asked if request == "batches"} == {3}
    assert (power.repeats, power.false_alarms) == (3, 0)
    # The made port has none of the planted code in it.
    assert {(each.detected, each.where, each.named, each.cause) for each in power.outcomes} == {(False, "", False, "")}
    total = len(seeds)
    assert told == [("planted bugs", done, total) for done in range(total + 1)]
    models = [asked["case"]["model"] for request, asked in sides.torch.asked if request == "prepare"]
    assert models.count("mutant:Model") == 2 * len(power.outcomes) == 4
