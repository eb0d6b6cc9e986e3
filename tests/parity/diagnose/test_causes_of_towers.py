"""What the combination of the towers' gradients and losses differs by is told by its factors: of all, of some, of one."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at

from parity.diagnose.detectors.aggregation import (
    gradient_factor,
    loss_factor,
    not_shared,
    some_towers,
    sum_instead_of_mean,
)

RANDOM = np.random.default_rng(18)
SHAPES = {"kernel": (4, 3), "bias": (3,), "table": (5, 2)}
KINDS = dict.fromkeys(SHAPES, "weight")
TOWERS = [{name: RANDOM.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(2)]
LOSSES = [1.25, 0.5]


def step(weights=(0.5, 0.5), own=(1.0, 1.0), of=None, losses=(1.0, 1.0), off=None, examples=4):
    """Gradients of two towers, times a factor of each, of each variable, and combined with weights."""
    of, off = of or {}, off or {}
    found = {}
    for tower, gradients in enumerate(TOWERS):
        found[f"loss/{tower}"] = np.array(LOSSES[tower] * losses[tower])
        found[f"feed/{tower}/x"] = np.zeros((examples, 2))
        found[f"feed/{tower}/weights"] = np.zeros(2)
        found[f"feed/{tower}/rate"] = np.zeros(())
        for name, value in gradients.items():
            found[f"tower_grad/{tower}/{name}"] = own[tower] * of.get(name, 1.0) * value + off.get(name, 0.0)
    for name in SHAPES:
        found[f"grad/{name}"] = sum(
            weight * found[f"tower_grad/{tower}/{name}"] for tower, weight in enumerate(weights)
        )
    return found


def says(folder, detector, key, one, other, facts=None, of_candidate=None):
    evidence = evidence_between(folder, one, other, {}, KINDS, facts, facts_of_candidate=of_candidate)
    cause = detector(first_at(key), evidence)
    return cause and (cause.name, cause.title, cause.evidence)


SUMMED, DOUBLED = step((1.0, 1.0)), step(own=(2.0, 2.0))


def test_a_sum_for_a_mean_is_told_with_the_side_that_sums(tmp_path):
    name, title, text = says(tmp_path / "candidate", sum_instead_of_mean, "grad/kernel", step(), SUMMED)
    assert (name, title) == ("sum_instead_of_mean", "sum instead of mean, ratio 2")
    assert text == (
        "the candidate sums over 2 towers where the reference averages: all 3 combined gradients differ by the factor 2, "
        "and the gradients of the single towers are the same"
    )
    sums = {"combine": "sum"}
    name, title, text = says(tmp_path / "reference", sum_instead_of_mean, "grad/kernel", SUMMED, step(), sums)
    assert text.startswith("the reference sums over 2 towers where the candidate averages: all 3 ")
    assert "by the factor 2, and" in text
    assert says(tmp_path / "a", sum_instead_of_mean, "grad/kernel", step(), SUMMED, sums) is None
    assert says(tmp_path / "b", sum_instead_of_mean, "grad/kernel", SUMMED, step()) is None
    assert says(tmp_path / "c", sum_instead_of_mean, "tower_grad/0/kernel", step(), SUMMED) is None
    assert says(tmp_path / "d", sum_instead_of_mean, "grad/kernel", step(), step((0.5, 1.0))) is None
    for off, is_named in ((0.9e-9, True), (1.2e-9, False)):
        other = {key: value * (1 + off) if key.startswith("grad/") else value for key, value in SUMMED.items()}
        assert (says(tmp_path / str(off), sum_instead_of_mean, "grad/kernel", step(), other) is not None) == is_named


@pytest.mark.parametrize(
    ("weights", "own", "key", "words", "shown"),
    [
        ((0.5, 0.0), (1.0, 1.0), "grad/kernel", "0", "1, 0"),
        ((0.0, 1.0), (1.0, 1.0), "grad/kernel", "1", "0, 2"),
        ((0.5, 0.75), (1.0, 1.0), "grad/kernel", "", "1, 1.5"),
        ((0.5, 0.5), (1.0, 0.0), "tower_grad/0/kernel", "0", "1, 0"),
        ((0.5, 0.5), (3.0, 1.0), "tower_grad/0/kernel", "", "3, 1"),
    ],
)
def test_towers_that_count_otherwise_are_told_with_their_weights(tmp_path, weights, own, key, words, shown):
    name, title, text = says(tmp_path, some_towers, key, step(), step(weights, own))
    assert name == "some_towers" and words in title
    assert text == f"the candidate's gradients are the reference's towers' times {shown}, for every variable"


def test_towers_that_count_alike_or_by_no_weights_are_not_told(tmp_path):
    for number, (key, other) in enumerate([
        ("grad/kernel", SUMMED),
        ("tower_grad/0/kernel", DOUBLED),
        ("grad/kernel", step(off={"kernel": RANDOM.normal(size=(4, 3))}, weights=(0.5, 0.75)) | {
            key: value for key, value in step().items() if key.startswith("tower_grad")}),
        ("var/kernel", step((0.5, 0.75))),
        ("tower_grad/0/kernel", step(own=(3.0, 1.0), off={"bias": 0.1})),
        ("tower_grad/0/kernel", step(own=(3.0, 2.0), losses=(3.0, 2.0))),  # another denominator of the losses
    ]):  # fmt: skip
        assert says(tmp_path / str(number), some_towers, key, step(), other) is None, number
    same = says(tmp_path / "one", some_towers, "tower_grad/0/kernel", step(), step(own=(3.0, 2.0), losses=(3.0, 1.0)))
    assert same is not None
    silent = step(own=(3.0, 0.0), losses=(3.0, 2.0))
    assert says(tmp_path / "silent", some_towers, "tower_grad/0/kernel", step(), silent) is not None


@pytest.mark.parametrize(
    ("of", "key", "name", "text"),
    [
        (3.0, "tower_grad/0/kernel", "gradient_factor", "every variable is 3 times the reference's, in every tower"),
        (3.0, "grad/kernel", "gradient_factor", "every variable is 3 times the reference's, once combined"),
        (-1.0, "grad/kernel", "sign", "every variable is -1 times the reference's, once combined"),
        (0.0, "grad/kernel", "zero_gradient", "every variable is zero where the reference's is not"),
        (0.5, "tower_grad/0/kernel", "gradient_factor", "every variable is 0.5 times"),
        (128.0, "grad/kernel", "gradient_factor", "every variable is 128 times"),
        ({"kernel": 3.0}, "grad/kernel", "gradient_factor", "the candidate's gradient of kernel is 3 times the"),
        ({"bias": 3.0, "table": 3.0}, "grad/bias", "gradient_factor", "gradient of table, bias is 3 times"),
        ({"bias": 0.0}, "grad/bias", "zero_gradient", "the candidate's gradient of bias is zero where"),
        ({"bias": 128.0}, "grad/bias", "gradient_factor", "of bias is 128 times"),
    ],
)
def test_a_factor_of_gradients_is_told_with_what_has_it(tmp_path, of, key, name, text):
    of = of if isinstance(of, dict) else dict.fromkeys(SHAPES, of)
    found = says(tmp_path, gradient_factor, key, step(), step(of=of))
    assert found[0] == name and text in found[2]


def test_gradients_that_are_off_by_several_factors_or_by_none_are_not_told(tmp_path):
    for number, of in enumerate(({"kernel": 3.0, "bias": 2.0}, {}, {"kernel": 1 + 4e-6})):
        assert says(tmp_path / str(number), gradient_factor, "grad/kernel", step(), step(of=of)) is None
    assert says(tmp_path / "off", gradient_factor, "grad/kernel", step(), step(off={"kernel": 0.1})) is None
    assert says(tmp_path / "var", gradient_factor, "var/kernel", step(), DOUBLED) is None
    for off, is_named in ((0.5e-9, True), (3e-9, False)):
        of = {"kernel": 3.0, "bias": 3.0 * (1 + off)}
        assert (says(tmp_path / str(off), gradient_factor, "grad/kernel", step(), step(of=of)) is not None) == is_named


SCALED = {"plan": {"loss_scale": {"initial": 128.0}}}


def test_a_power_of_two_of_all_gradients_is_a_loss_scale_where_a_side_has_one(tmp_path):
    every, some = step(of=dict.fromkeys(SHAPES, 128.0)), step(of={"kernel": 128.0})
    for number, (facts, of_candidate) in enumerate(((SCALED, {}), ({}, SCALED))):
        found = says(tmp_path / f"{number}", gradient_factor, "grad/kernel", step(), every, facts, of_candidate)
        assert found[0] == "loss_scale" and found[2].endswith("once combined, a power of two")
    assert says(tmp_path / "some", gradient_factor, "grad/kernel", step(), some, SCALED)[0] == "gradient_factor"
    counted = step() | {"state/loss_scale": np.array(128.0)}
    assert says(tmp_path / "counter", gradient_factor, "grad/kernel", counted, every)[0] == "loss_scale"


@pytest.mark.parametrize(
    ("factor", "name", "text"),
    [
        (4.0, "loss_reduction", "is 4 times the reference's: the number of examples of a shard is 4"),
        (0.25, "loss_reduction", "is 0.25 times the reference's: the number of examples of a shard is 4"),
        (8.0, "loss_reduction", "the number of examples of a batch is 8"),
        (3.0, "gradient_factor", "every tower's loss is 3 times the reference's"),
        (2.0, "gradient_factor", "is 2 times"),
        (64.0, "gradient_factor", "is 64 times"),
    ],
)
def test_a_factor_of_losses_is_told_with_what_it_counts(tmp_path, factor, name, text):
    found = says(tmp_path, loss_factor, "loss/0", step(), step(losses=(factor, factor)))
    assert found[0] == name and text in found[2]
    if name == "loss_reduction":
        kinds = ("a sum", "a mean") if factor > 1 else ("a mean", "a sum")
        assert found[1].index(kinds[0]) < found[1].index(kinds[1])


def test_losses_that_are_off_by_several_factors_or_alike_are_not_told(tmp_path):
    assert says(tmp_path / "two", loss_factor, "loss/0", step(), step(losses=(3.0, 2.0))) is None
    assert says(tmp_path / "grad", loss_factor, "grad/kernel", step(), step(losses=(3.0, 3.0))) is None
    alike = [side | {"loss/1": side["loss/0"]} for side in (step(), step(losses=(3.0, 3.0)))]
    assert says(tmp_path / "alike", loss_factor, "loss/0", *alike) is None
    single = [step(examples=1, losses=losses) for losses in ((1.0, 1.0), (2.0, 2.0))]
    found = says(tmp_path / "single", loss_factor, "loss/0", *single)
    assert found[0] == "loss_reduction" and "the number of examples of a shard is 2" in found[2]  # of the longest feed
    found = says(tmp_path / "scale", loss_factor, "loss/0", step(), step(losses=(64.0, 64.0)), SCALED)
    assert found[0] == "loss_scale"


def test_ranks_that_part_are_told_where_their_gradients_do_or_not(tmp_path):
    parted = {"ranks_agree": False}
    text = "after a step the ranks hold different weights"
    for number, (key, other, words) in enumerate([
        ("var/kernel", step(), f"{text}, though all 3 combined gradients are the reference's; what is shown"),
        ("slot/m/kernel", step(), f"{text}, though all 3"),
        ("var/kernel", DOUBLED, f"{text}; what is shown of var/kernel is rank 0's own"),
        ("grad/kernel", step(), f"{text}; what is shown of grad/kernel is rank 0's own"),
        ("tower_grad/0/kernel", step(), f"{text}; what is shown"),
    ]):  # fmt: skip
        found = says(tmp_path / str(number), not_shared, key, step(), other, {}, parted)
        assert found[0] == "not_shared" and found[2].startswith(words)
    assert says(tmp_path / "agree", not_shared, "var/kernel", step(), step()) is None
    assert says(tmp_path / "loss", not_shared, "loss/0", step(), step(), {}, parted) is None
