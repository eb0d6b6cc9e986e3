"""Moving statistics and averages that move otherwise: frozen, by another variance, momentum or decay, or too early."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at

from parity.diagnose.detectors.statistics import (
    averages_not_used,
    batch_norm_statistics,
    bias_before_norm,
    stale_average,
    statistics_frozen,
)

RANDOM = np.random.default_rng(8)
BEFORE = {f"stat/bn/{name}": RANDOM.uniform(0.5, 1.5, size=6) for name in ("moving_mean", "moving_variance")}
BATCH = {name: RANDOM.uniform(0.5, 1.5, size=6) for name in BEFORE}
MEAN, VARIANCE = BEFORE
KINDS = {name.partition("/")[2]: "statistic" for name in BEFORE}


def moved(share=0.1, **batch):
    """Statistics that have gone so far to those of a batch."""
    own = BATCH | batch
    return {name: (1 - share) * BEFORE[name] + share * own[name] for name in BEFORE}


def says(folder, detector, key, reference, candidate, before=None, facts=None, kinds=None, step=0):
    before = BEFORE if before is None else before
    evidence = evidence_between(folder, reference, candidate, before, KINDS | (kinds or {}), facts)
    cause = detector(first_at(key, step), evidence)
    return cause and f"{cause.title}: {cause.evidence}"


def test_statistics_that_stay_are_named_with_their_number(tmp_path):
    stays = moved() | {MEAN: BEFORE[MEAN]}
    text = says(tmp_path / "one", statistics_frozen, MEAN, moved(), stays)
    assert text.endswith("1 of 2 statistics of the candidate are as they were before step 0: bn/moving_mean")
    assert says(tmp_path / "another", statistics_frozen, VARIANCE, moved(), stays) is None
    text = says(tmp_path / "all", statistics_frozen, MEAN, moved(), BEFORE)
    assert "2 of 2 statistics" in text and text.endswith(": bn/moving_mean, bn/moving_variance")
    assert says(tmp_path / "both", statistics_frozen, MEAN, stays, BEFORE) is None  # the reference's mean stays too
    for off, stays in ((0.9e-12, True), (2e-12, False)):
        other = moved() | {MEAN: BEFORE[MEAN] * (1 + off)}
        assert (says(tmp_path / str(off), statistics_frozen, MEAN, moved(), other) is not None) == stays


UNBIASED = 32 / 31  # of 32 values in a channel
FEEDS = {"feed/0/x": np.zeros((4, 8)), "feed/1/x": np.zeros((4, 8))}


@pytest.mark.parametrize(
    ("factor", "kept", "whose"),
    [
        (UNBIASED, 0.9, "unbiased variance (n - 1)"),
        (1 / UNBIASED, 0.9, "biased variance (n)"),
        (UNBIASED, 0.0, "unbiased"),
    ],
)
def test_a_variance_over_another_count_is_told_with_the_count(tmp_path, factor, kept, whose):
    one = moved(1 - kept)
    other = moved(1 - kept, **{VARIANCE: factor * BATCH[VARIANCE]})
    text = says(tmp_path, batch_norm_statistics, VARIANCE, one | FEEDS, other | FEEDS)
    assert whose in text.partition(": ")[0]
    assert f"bn/moving_variance is off by the factor {factor:.9g} = 31/32 or its inverse, for n = 32 values" in text


def test_a_count_is_a_whole_number_that_the_batch_may_have(tmp_path):
    for factor, is_named in (
        (32.0003 / 31.0003, True),
        (32.0004 / 31.0004, False),
        (31 / 30, False),  # no multiple of an axis of what is fed
        (36 / 35, True),
    ):
        one, other = moved(), moved(**{VARIANCE: factor * BATCH[VARIANCE]})
        text = says(tmp_path / str(factor), batch_norm_statistics, VARIANCE, one | FEEDS, other | FEEDS)
        assert (text is not None) == is_named, factor
    other = moved(**{VARIANCE: 31 / 30 * BATCH[VARIANCE]})
    assert says(tmp_path / "unknown", batch_norm_statistics, VARIANCE, moved(), other) is not None
    for count, is_named in ((2, True), (1.4, False)):
        other = moved(**{VARIANCE: count / (count - 1) * BATCH[VARIANCE]})
        assert (says(tmp_path / f"of {count}", batch_norm_statistics, VARIANCE, moved(), other) is not None) == is_named
    other = moved(**{VARIANCE: 31 / 30 * BATCH[VARIANCE]})
    single = {"feed/0/x": np.zeros((1, 1)), "feed/1/x": np.zeros((1, 1))}
    assert says(tmp_path / "single", batch_norm_statistics, VARIANCE, moved() | single, other | single) is not None


def test_where_the_mean_moves_otherwise_too_it_is_no_other_variance(tmp_path):
    for off, is_named in ((0.9e-6, True), (1.5e-6, False)):
        other = moved(**{VARIANCE: UNBIASED * BATCH[VARIANCE]})
        other[MEAN] = other[MEAN] * (1 + off)
        text = says(tmp_path / str(off), batch_norm_statistics, VARIANCE, moved(), other)
        assert (text is not None) == is_named


def test_another_momentum_of_a_norm_is_told_by_its_share(tmp_path):
    text = says(tmp_path / "other", batch_norm_statistics, MEAN, moved(), moved(0.25))
    assert text.endswith("every channel of bn/moving_mean fits moving' = moving + 2.5 (reference' - moving)")
    assert says(tmp_path / "same", batch_norm_statistics, MEAN, moved(), moved(0.1 + 1e-7)) is None


@pytest.mark.parametrize(("off", "is_named"), [(0.5e-7, True), (5e-7, False)])
def test_statistics_leave_a_ten_millionth_of_what_differs(tmp_path, off, is_named):
    other, noise = moved(**{VARIANCE: 2.0 * BATCH[VARIANCE]}), RANDOM.normal(size=6)
    other[VARIANCE] += off * np.linalg.norm(other[VARIANCE] - moved()[VARIANCE]) * noise / np.linalg.norm(noise)
    assert (says(tmp_path, batch_norm_statistics, VARIANCE, moved(), other) is not None) == is_named


@pytest.mark.parametrize(("channels", "is_named"), [(3, True), (2, False)])
def test_three_channels_tell_two_numbers(tmp_path, channels, is_named):
    sides = [{name: value[:channels] for name, value in each.items()} for each in (moved(), moved(0.25), BEFORE)]
    text = says(tmp_path, batch_norm_statistics, MEAN, *sides)
    assert (text is not None) == is_named
    assert says(tmp_path / "var", batch_norm_statistics, "var/bn/moving_mean", *sides) is None


@pytest.mark.parametrize(
    ("other_norm", "is_named"), [((4, 0.25), True), ((1, 0.25), False), ((4, 0.1), False), (None, False)]
)
def test_of_a_single_channel_the_other_norms_tell_a_momentum_that_is_theirs_too(tmp_path, other_norm, is_named):
    """A norm of gray pictures; another norm that moves as the reference's says that it is no momentum of all."""

    def sides(*shares):
        found = {name: value[:1] for name, value in moved(shares[0]).items()}
        if other_norm:
            extra = {"stat/norm/moving_mean": moved(shares[1])[MEAN][-other_norm[0] :]}
            found |= extra
        return found

    before = {name: value[:1] for name, value in BEFORE.items()}
    if other_norm:
        before["stat/norm/moving_mean"] = BEFORE[MEAN][-other_norm[0] :]
    kinds = {"norm/moving_mean": "statistic"}
    own, theirs = sides(0.1, 0.1), sides(0.25, other_norm[1] if other_norm else 0.0)
    text = says(tmp_path, batch_norm_statistics, MEAN, own, theirs, before, kinds=kinds)
    assert (text is not None) == is_named
    if is_named:
        assert "every channel of bn/moving_mean, as of 1 more, fits moving' = moving + 2.5" in text


def test_a_count_of_values_is_no_norms_but_its_own(tmp_path):
    """Another norm that has as many values in a channel is counted alike; that says nothing of one with a single channel."""
    other = moved(**{VARIANCE: UNBIASED * BATCH[VARIANCE]})
    extra = "stat/norm/moving_variance"
    sides = [
        {**{name: value[:1] for name, value in side.items()}, extra: side[VARIANCE][1:]}
        for side in (moved(), other, BEFORE)
    ]
    one, theirs, before = sides
    kinds = {"norm/moving_variance": "statistic"}
    given = one | FEEDS, theirs | FEEDS, before
    assert says(tmp_path / "single", batch_norm_statistics, VARIANCE, *given, kinds=kinds) is None
    assert says(tmp_path / "own", batch_norm_statistics, extra, *given, kinds=kinds) is not None


def test_a_bias_in_front_of_a_norm_moves_its_mean_channel_by_channel(tmp_path):
    bias = RANDOM.normal(size=6)
    other = moved()
    other[MEAN] = other[MEAN] - 0.1 * bias
    for number, (value, is_named) in enumerate([
        (bias, True), (np.ones(6), False), (bias[:5], False), (bias + 1e-3 * RANDOM.normal(size=6), False),
    ]):  # fmt: skip
        states = BEFORE | {"var/conv/bias": value}
        text = says(
            tmp_path / str(number), bias_before_norm, MEAN, moved(), other, states, kinds={"conv/bias": "weight"}
        )
        assert (text is not None) == is_named
        if is_named:
            assert "every channel of bn/moving_mean is off by -0.1 times conv/bias; what comes out" in text
    few = [{name: value[:2] for name, value in each.items()} for each in (moved(), other, BEFORE | {"var/b": bias})]
    assert says(tmp_path / "few", bias_before_norm, MEAN, *few, kinds={"b": "weight"}) is None


def averages(states, weights, share=0.1, of_old=False):
    """Averages that have gone so far to the weights of after a step, or of before it."""
    steps = []
    for state, after in zip(states, weights, strict=True):
        start, goal = state["ema/w"], state["var/w"] if of_old else after
        steps.append({"var/w": after, "ema/w": start + share * (goal - start)})
    return steps


STATES = [{"var/w": RANDOM.normal(size=8), "ema/w": RANDOM.normal(size=8)} for _ in range(2)]
AFTER = [state["var/w"] + 0.1 * RANDOM.normal(size=8) for state in STATES]


@pytest.mark.parametrize("count", [1, 2])
def test_averages_of_the_weights_of_before_an_update_are_told(tmp_path, count):
    one, other = (averages(STATES[:count], AFTER[:count], of_old=of_old) for of_old in (False, True))
    text = says(tmp_path, stale_average, "ema/w", one, other, STATES[:count], kinds={"w": "weight"})
    words = "1 averages of the candidate move by 0.1 of the way to what the weights were before the update at step 0"
    assert text.endswith(words + (", and so at 2 steps" if count == 2 else ""))


def test_averages_are_stale_at_every_step_that_tells_or_at_none(tmp_path):
    one, other = (averages(STATES, AFTER, of_old=of_old) for of_old in (False, True))
    assert (
        says(tmp_path / "half", stale_average, "ema/w", one, [other[0], one[1]], STATES, kinds={"w": "weight"}) is None
    )
    at_once = [STATES[0], STATES[1] | {"ema/w": STATES[1]["var/w"]}]  # the second begins at its weight
    one, other = (averages(at_once, AFTER, of_old=of_old) for of_old in (False, True))
    text = says(tmp_path / "one", stale_average, "ema/w", one, other, at_once, kinds={"w": "weight"})
    assert text.endswith("before the update at step 0")
    assert says(tmp_path / "var", stale_average, "var/w", one, other, at_once, kinds={"w": "weight"}) is None


def evaluated(plain, averaged):
    """Two outputs, evaluated with the weights and with the averages in their place."""
    found = {"eval/loss": plain[0], "eval/logits": plain[1]}
    found |= {"eval/ema/loss": averaged[0], "eval/ema/logits": averaged[1]}
    return {name: np.array(value) for name, value in found.items()}


def test_averages_that_no_evaluation_uses_are_told(tmp_path):
    one = evaluated((1.0, [1.0, 2.0]), (2.0, [3.0, 4.0]))
    never, once = evaluated((1.0, [1.0, 2.0]), (1.0, [1.0, 2.0])), evaluated((1.0, [1.0, 2.0]), (1.0, [3.0, 4.0]))
    text = says(tmp_path / "never", averages_not_used, "eval/ema/loss", one, never, {})
    assert "2 outputs of the candidate are what they are with the weights themselves" in text
    assert says(tmp_path / "once", averages_not_used, "eval/ema/loss", one, once, {}) is None
    assert says(tmp_path / "plain", averages_not_used, "eval/loss", one, never, {}) is None
    assert says(tmp_path / "same", averages_not_used, "eval/ema/loss", never, once, {}) is None
    handed = evaluated((1.0, [1.0, 2.0]), (2.0, [1.0, 2.0]))  # an output that hangs on no weight
    text = says(tmp_path / "handed", averages_not_used, "eval/ema/loss", handed, never, {})
    assert "1 outputs of the candidate" in text


def test_a_matrix_that_follows_is_a_copy_of_weights_and_nothing_of_a_norm(tmp_path):
    before, towards = np.random.default_rng(4).normal(size=(2, 3, 4))
    one, other = ({"stat/target/kernel": before + share * (towards - before)} for share in (0.1, 0.9))
    kinds = {"target/kernel": "statistic"}
    text = says(
        tmp_path, batch_norm_statistics, "stat/target/kernel", one, other, {"stat/target/kernel": before}, kinds=kinds
    )
    assert text.startswith("the copy that follows the weights moves 9 times as far as the reference's")
