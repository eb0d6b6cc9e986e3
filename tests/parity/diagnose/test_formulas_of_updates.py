"""What is said of an update and of a slot: each side's formula with its numbers, and what the difference is called."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at
from support.made_updates import FACTS, KINDS, adadelta, adagrad, adam, before, ftrl, made, momentum, rmsprop

from parity.diagnose import find_causes

RATES = {momentum: 0.1, adam: 0.01, rmsprop: 0.01, adagrad: 0.1, adadelta: 1.0, ftrl: 0.1}


def said(folder, key, reference, rule=None, own=None, of_reference=None, of_candidate=None, **settings):
    """Names and "title: evidence" of the causes at a tensor of the first step; `own` are settings of both sides."""
    own = own or {}
    rate = own.get("lr", RATES[reference])
    facts = {"optimizer": {**FACTS[reference], **own, "learning_rate": rate, **(of_reference or {})}}
    theirs = {"optimizer": of_candidate} if of_candidate else None
    one, other = made(reference, reference, **own), made(rule or reference, reference, **{**own, **settings})
    evidence = evidence_between(folder, one, other, before(reference), KINDS, facts, facts_of_candidate=theirs)
    return [(cause.name, f"{cause.title}: {cause.evidence}") for cause in find_causes(first_at(key), evidence)]


def check(found, name, title, evidence):
    assert [each for each, _ in found] == [name], found
    assert found[0][1] == f"{title}: {evidence}"


FIRST, SECOND = 1 - 0.9**3, (1 - 0.999**3) ** 0.5  # what Adam corrects its bias by
PLAIN = "0.00202011 m / (sqrt(v) + 0.0001)"
AHEAD, BEHIND = (f"(0.00202011 m + {share} gradient) / (sqrt(v) + 0.0001)" for share in ("0.000224456", "-0.000202011"))
ROOT, PLUS = "0.1 gradient / (sqrt(accumulator) + {})", "0.1 gradient / sqrt(accumulator + 0.01)"
BOTH, ONE = "steps 0, 1", "step 0"


@pytest.mark.parametrize(
    ("rule", "own", "settings", "name", "title", "formulas", "steps"),
    [
        (adam, {}, {"epsilon": 1e-6}, "adam_epsilon", "Adam's epsilon is 1e-06 where the reference has 0.0001",
         ("0.00202011 m / (sqrt(v) + 1e-06)", PLAIN), ONE),
        (adam, {}, {"epsilon": 0.0}, "adam_epsilon", "Adam's epsilon is 0 where the reference has 0.0001",
         ("0.00202011 m / (sqrt(v) + 0)", PLAIN), ONE),
        (adam, {"epsilon": 0.0}, {"epsilon": 1e-3}, "adam_epsilon", "Adam's epsilon is 0.001 where the reference has 0",
         ("0.00202011 m / (sqrt(v) + 0.001)", "0.00202011 m / (sqrt(v) + 0)"), ONE),
        (adam, {}, {"of_torch": True, "epsilon": 1e-2}, "adam_epsilon",
         "Adam's epsilon is 0.000547449 where the reference has 0.0001",
         ("0.00202011 m / (sqrt(v) + 0.000547449)", PLAIN), ONE),
        (adam, {}, {"ahead": 0.1 / 0.9}, "nesterov", "Nesterov momentum in the candidate only", (AHEAD, PLAIN), BOTH),
        (adam, {"ahead": 0.1 / 0.9}, {"ahead": 0.0}, "nesterov", "Nesterov momentum in the reference only",
         (PLAIN, AHEAD), BOTH),
        (momentum, {}, {"nesterov": True}, "nesterov", "Nesterov momentum in the candidate only",
         ("0.09 momentum + 0.1 gradient", "0.1 momentum"), BOTH),
        (momentum, {"nesterov": True}, {"nesterov": False}, "nesterov", "Nesterov momentum in the reference only",
         ("0.1 momentum", "0.09 momentum + 0.1 gradient"), BOTH),
        (adagrad, {}, {"inside": 1e-2}, "optimizer_epsilon",
         "the optimizer's epsilon is 0.01 inside the root where the reference has none", (PLUS, ROOT.format(0)), BOTH),
        (adagrad, {}, {"epsilon": 1e-2}, "optimizer_epsilon", "the optimizer's epsilon is 0.01 where the reference has 0",
         (ROOT.format(0.01), ROOT.format(0)), ONE),
        (adagrad, {"epsilon": 1e-2}, {"epsilon": 2e-2}, "optimizer_epsilon",
         "the optimizer's epsilon is 0.02 where the reference has 0.01", (ROOT.format(0.02), ROOT.format(0.01)), ONE),
        (adagrad, {"epsilon": 1e-2}, {"epsilon": 0.0}, "optimizer_epsilon",
         "the optimizer's epsilon is 0 where the reference has 0.01", (ROOT.format(0), ROOT.format(0.01)), ONE),
        (adagrad, {"inside": 1e-2}, {"inside": 0.0, "epsilon": 1e-2}, "optimizer_epsilon",
         "the optimizer's epsilon outside the root", (ROOT.format(0.01), PLUS), BOTH),
        (adagrad, {"epsilon": 1e-2}, {"inside": 1e-2, "epsilon": 0.0}, "optimizer_epsilon",
         "the optimizer's epsilon inside the root", (PLUS, ROOT.format(0.01)), BOTH),
        (rmsprop, {}, {"epsilon": 1e-2}, "rmsprop_epsilon", "RMSProp's epsilon is 0.01 where the reference has 0.001",
         ("0.01 gradient / sqrt(rms + 0.01)", "0.01 gradient / sqrt(rms + 0.001)"), ONE),
        (rmsprop, {}, {"inside": False}, "rmsprop_epsilon", "RMSProp's epsilon outside the root",
         ("0.01 gradient / (sqrt(rms) + 0.001)", "0.01 gradient / sqrt(rms + 0.001)"), BOTH),
        (rmsprop, {}, {"inside": False, "epsilon": 1e-2}, "rmsprop_epsilon", "RMSProp's epsilon outside the root",
         ("0.01 gradient / (sqrt(rms) + 0.01)", "0.01 gradient / sqrt(rms + 0.001)"), BOTH),
        (rmsprop, {"keep": 0.9}, {"epsilon": 1e-2}, "rmsprop_epsilon",
         "RMSProp's epsilon is 0.01 where the reference has 0.001",
         ("0.01 gradient / sqrt(rms + 0.01)", "0.01 gradient / sqrt(rms + 0.001)"), ONE),
    ],
)  # fmt: skip
def test_both_formulas_of_an_update_are_said(tmp_path, rule, own, settings, name, title, formulas, steps):
    key = "slot/momentum/kernel" if rule is rmsprop else "var/kernel"
    found = said(tmp_path, key, rule, own=own, **settings)
    update = f"the candidate's update of all 3 variables is {formulas[0]}, the reference's {formulas[1]}"
    check(found, name, title, f"{update}, each of its own gradients and slots at {steps}")


def test_what_is_known_of_torchs_epsilon_is_said_as_torch_has_it(tmp_path):
    candidate = "the candidate's update of all 3 variables is 0.00202011 m / (sqrt(v) + {})"
    end = f", the reference's {PLAIN}, each of its own gradients and slots at step 0"
    found = said(tmp_path / "a", "var/kernel", adam, of_candidate={"eps": 1e-2}, of_torch=True, epsilon=1e-2)
    evidence = f"{candidate.format(0.000547449)}{end}, which is 0.01 beside the bias-corrected root (torch's rule)"
    check(found, "adam_epsilon", "Adam's epsilon is 0.01 where the reference has 0.0001", evidence)
    found = said(tmp_path / "b", "var/kernel", adam, of_torch=True)
    evidence = (
        f"{candidate.format('5.47449e-06')}{end}: the candidate adds 0.0001 to the bias-corrected root (torch's rule); "
        "TensorFlow adds 0.0001 before correcting the bias. Size of the effect at step 0: up to 0.00095 of a weight's update"
    )
    check(found, "adam_epsilon_placement", "Adam's epsilon inside the bias correction", evidence)


@pytest.mark.parametrize(
    ("lr", "which", "words"),
    [
        (
            0.01,
            "bias correction",
            "0.01 m / (sqrt(v) + 0.0001) gives the candidate's update of all 3 variables at step 0, ",
        ),
        (0.01 * SECOND, "the correction of its first moment", "0.271 times the reference's"),
        (0.01 / FIRST, "the correction of its second moment", "18.2666 times the reference's"),
    ],
)
def test_which_correction_of_a_bias_is_left_out_is_said(tmp_path, lr, which, words):
    ((name, text),) = said(tmp_path, "var/kernel", adam, corrected=False, lr=lr)
    assert name == "bias_correction" and text.startswith(f"Adam without {which}: ")
    assert words in text


def test_a_slot_of_before_the_step_is_told_from_a_look_ahead(tmp_path):
    title = "the update of the {} uses m from before the step, the {}'s from after it"
    less = ": m less what the gradient has added to it"
    for number, (own, candidate, sides, formulas) in enumerate([
        ({}, -0.1, ("candidate", "reference"), (BEHIND, PLAIN)),
        ({"ahead": -0.1}, 0.0, ("reference", "candidate"), (PLAIN, BEHIND)),
    ]):  # fmt: skip
        found = said(tmp_path / str(number), "var/kernel", adam, own=own, ahead=candidate)
        update = f"the candidate's update of all 3 variables is {formulas[0]}, the reference's {formulas[1]}"
        evidence = f"{update}, each of its own gradients and slots at steps 0, 1{less}"
        check(found, "optimizer_rule", title.format(*sides), evidence)


def test_a_lost_momentum_and_an_added_one_are_told(tmp_path):
    def plain(g, s, w):
        momentum(g, s, w)
        return 0.1 * g

    words = "each of its own gradients and slots at steps 0, 1"
    title = "the update is plain gradient descent: the momentum is lost"
    evidence = f"the candidate's update of all 3 variables is 0.1 gradient, the reference's 0.1 momentum, {words}"
    check(said(tmp_path / "lost", "var/kernel", momentum, plain), "momentum", title, evidence)


@pytest.mark.parametrize(
    ("key", "rule", "own", "settings", "name", "title", "shares"),
    [
        ("momentum", momentum, {}, {"keep": 0.5}, "momentum", "the momentum is 0.5 where the reference has 0.9",
         (0.5, 1, 0.9, 1)),
        ("momentum", momentum, {}, {"keep": 0.0}, "slot_reset", "the slot momentum is forgotten in every step",
         (0, 1, 0.9, 1)),
        ("momentum", momentum, {"take": 0.1}, {"take": 1.0}, "optimizer_rule",
         "the slot momentum sums gradients up, as momentum does, where the reference's averages them", (0.9, 1, 0.9, 0.1)),
        ("momentum", momentum, {"take": 0.1}, {"keep": 0.81, "take": 0.19}, "adam_beta",
         "beta1 is 0.81 where the reference has 0.9", (0.81, 0.19, 0.9, 0.1)),
        ("m", adam, {}, {"beta1": 0.5}, "adam_beta", "beta1 is 0.5 where the reference has 0.9", (0.5, 0.5, 0.9, 0.1)),
        ("m", adam, {}, {"beta1": 0.81}, "adam_beta", "beta1 is 0.81 where the reference has 0.9", (0.81, 0.19, 0.9, 0.1)),
        ("v", adam, {}, {"beta2": 0.99}, "adam_beta", "beta2 is 0.99 where the reference has 0.999",
         (0.99, 0.01, 0.999, 0.001)),
        ("rms", rmsprop, {}, {"decay": 0.99}, "decay_rate", "RMSProp's decay is 0.99 where the reference has 0.9",
         (0.99, 0.01, 0.9, 0.1)),
        ("rms", rmsprop, {}, {"sums": True}, "optimizer_rule",
         "the slot rms sums squares up, as Adagrad does, where the reference's averages squares, as RMSProp does, and "
         "keeps 0.9 of itself", (1, 1, 0.9, 0.1)),
        ("accumulator", adagrad, {}, {"average": 0.9}, "optimizer_rule",
         "the slot accumulator averages squares, as RMSProp does, and keeps 0.9 of itself, where the reference's sums "
         "squares up, as Adagrad does", (0.9, 0.1, 1, 1)),
        ("accum", adadelta, {}, {"rho": 0.9}, "decay_rate", "Adadelta's rho is 0.9 where the reference has 0.95",
         (0.9, 0.1, 0.95, 0.05)),
    ],
)  # fmt: skip
def test_the_shares_of_a_slot_are_said(tmp_path, key, rule, own, settings, name, title, shares):
    square = "" if key in ("momentum", "m") else "^2"
    evidence = (
        f"slot' = {shares[0]} slot + {shares[1]} gradient{square} fits every variable of the candidate, where the reference "
        f"has {shares[2]} and {shares[3]}"
    )
    check(said(tmp_path, f"slot/{key}/kernel", rule, own=own, **settings), name, title, evidence)


@pytest.mark.parametrize(("times", "is_named"), [(2, True), (3, True), (4, True), (5, False)])
def test_several_steps_for_one_are_told_by_all_slots_together(tmp_path, times, is_named):
    found = said(tmp_path / "all", "slot/m/kernel", adam, beta1=0.9**times, beta2=0.999**times)
    assert [name for name, _ in found] == ["updated_twice" if is_named else "adam_beta"]
    if is_named:
        assert found[0][1].startswith(f"the optimizer makes {times} steps where the reference makes one: ")
        assert found[0][1].endswith(f": 0.9 to the power of {times}, as after {times} steps with the same gradient")
    (one,) = said(tmp_path / "one", "slot/m/kernel", adam, beta1=0.9**times)
    assert one[0] == "adam_beta"
    taken = sum(0.9**k for k in range(times))
    found = said(tmp_path / "momentum", "slot/momentum/kernel", momentum, keep=0.9**times, take=taken)
    assert [name for name, _ in found] == ["updated_twice" if is_named else "momentum"]


def test_a_slot_of_some_variables_names_them(tmp_path):
    found = said(tmp_path, "slot/momentum/bias", momentum, keep=0.5, only=["bias", "kernel"])
    title = "the momentum is 0.5 where the reference has 0.9 for kernel, bias"
    evidence = "slot' = 0.5 slot + 1 gradient fits kernel, bias of the candidate, where the reference has 0.9 and 1"
    check(found, "momentum", title, evidence)


@pytest.mark.parametrize(("off", "is_named"), [(0.9e-7, False), (1.2e-7, True)])
def test_a_share_of_a_slot_is_told_to_a_ten_millionth(tmp_path, off, is_named):
    assert bool(said(tmp_path, "slot/momentum/kernel", momentum, keep=0.9 + off)) == is_named


OF_SLOTS = "each side's slots and gradients at step 0 follow Adadelta's rule with its own epsilon inside both roots"
OF_FTRL = "each side's weights at step 0 are what Ftrl's rule makes of its slots with these numbers"
L1, L2, LR = "l1_regularization_strength", "l2_regularization_strength", "learning_rate"


@pytest.mark.parametrize("key", ["slot/accum_update/kernel", "var/kernel"])
@pytest.mark.parametrize(("epsilon", "title"), [(1e-6, "1e-06"), (1e-2, "0.01"), (1e-4 * (1 + 1.1e-3), "0.00010011")])
def test_adadeltas_epsilon_is_solved_for(tmp_path, key, epsilon, title):
    title = f"Adadelta's epsilon is {title} where the reference has 0.0001"
    check(said(tmp_path, key, adadelta, epsilon=epsilon), "optimizer_epsilon", title, OF_SLOTS)


@pytest.mark.parametrize(
    ("own", "settings", "name", "text"),
    [
        ({}, {"l1": 0.01}, "optimizer_setting", f"{L1} 0.01 where the reference has 0"),
        ({}, {"l2": 0.01}, "optimizer_setting", f"{L2} 0.01 where the reference has 0"),
        ({}, {"lr": 0.2}, LR, f"{LR} 0.2 where the reference has 0.1"),
        ({"l1": 0.01, "l2": 0.02}, {"l1": 0.03}, "optimizer_setting", f"{L1} 0.03 where the reference has 0.01"),
        ({"l1": 0.01, "l2": 0.02}, {"l2": 0.0}, "optimizer_setting", f"{L2} 0 where the reference has 0.02"),
        ({"power": -0.4}, {"l2": 0.2}, "optimizer_setting", f"{L2} 0.2 where the reference has 0"),
        ({"power": -0.4}, {"lr": 0.2}, LR, f"{LR} 0.2 where the reference has 0.1"),
        ({}, {"lr": 0.1 * (1 + 1.1e-5)}, LR, f"{LR} 0.100001 where the reference has 0.1"),
        (
            {},
            {"l1": 0.01, "l2": 0.02, "lr": 0.3},
            "optimizer_setting",
            f"{LR} 0.3 where the reference has 0.1, {L2} 0.02 where the reference has 0, "
            f"{L1} 0.01 where the reference has 0",
        ),
    ],
)
def test_what_ftrl_is_set_to_is_solved_for(tmp_path, own, settings, name, text):
    power = {"learning_rate_power": own["power"]} if "power" in own else {}
    found = said(tmp_path, "var/kernel", ftrl, own=own, of_reference=power, **settings)
    check(found, name, f"Ftrl's {text}", OF_FTRL)


def test_settings_that_are_the_same_to_five_digits_are_not_named(tmp_path):
    for number, settings in enumerate(({"lr": 0.1 * (1 + 0.9e-5)}, {"l1": 0.9e-8}, {"l2": 0.9e-8})):
        assert said(tmp_path / f"ftrl {number}", "var/kernel", ftrl, **settings) == []
    assert said(tmp_path / "adadelta", "var/kernel", adadelta, epsilon=1e-4 * (1 + 0.9e-3)) == []


@pytest.mark.parametrize(
    ("settings", "name", "text"),
    [
        (
            {"keep": 0.9},
            "momentum",
            "the momentum is 0.9 where the reference has 0.5: momentum' = 0.9 momentum + 0.01 gradient / sqrt(rms + 0.001) "
            "gives that of all 3 variables",
        ),
        (
            {"keep": 0.9, "lr": 0.02},
            "momentum",
            "the momentum is 0.9 where the reference has 0.5: momentum' = 0.9 momentum + 0.02 gradient / sqrt(rms + 0.001) "
            "gives that of all 3 variables",
        ),
        (
            {"lr": 0.02},
            "learning_rate",
            "learning rate off by the factor 2: what the momentum takes up is 2 times the reference's for all 3 variables",
        ),
        (
            {"lr": 0.02, "only": ["bias", "table"]},
            "learning_rate",
            "learning rate off by the factor 2: what the momentum takes up is 2 times the reference's for bias, table",
        ),
        (
            {"lr": 1.0},
            "optimizer_rule",
            "the momentum takes up the update without the learning rate, which the reference multiplies it by before: "
            "momentum' = 0.5 momentum + 1 gradient / sqrt(rms + 0.001) gives all 3 variables', 0.01 in place of the 1 gives "
            "the reference's",
        ),
    ],
)
def test_what_a_momentum_of_updates_takes_up_is_said(tmp_path, settings, name, text):
    key = "slot/momentum/bias" if "only" in settings else "slot/momentum/kernel"
    assert said(tmp_path, key, rmsprop, **settings) == [(name, text)]


def test_updates_that_turn_or_stay_are_named_with_their_number(tmp_path):
    def turned(g, s, w):
        return -momentum(g, s, w)

    def bias_stays(g, s, w):
        return momentum(g, s, w) * (w.ndim > 1)

    evidence = "the candidate's update of all 3 variables is the reference's with the other sign at step 0"
    check(said(tmp_path / "sign", "var/kernel", momentum, turned), "sign", "the update goes uphill", evidence)
    evidence = "the candidate leaves bias as it was at step 0, though its gradient is not zero; 2 others move"
    check(said(tmp_path / "one", "var/bias", momentum, bias_stays), "not_updated", "bias gets no update", evidence)
    all_of_them = "the candidate leaves all 3 variables that move in the reference as they were"
    found = said(tmp_path / "all", "var/kernel", momentum, lambda g, s, w: np.zeros_like(w))
    check(found, "not_updated", "no variable moves at step 0", f"{all_of_them}, though their gradients are not zero")


def test_a_rate_of_some_variables_names_them(tmp_path):
    title = "learning rate off by the factor 2 for kernel, table"
    two = "the candidate's update of 2 of 3 variables is 2 times the reference's at step 0"
    found = said(tmp_path, "var/kernel", momentum, lr=0.2, only=["kernel", "table"])
    check(found, "learning_rate", title, f"{two}, from the same gradients and slots")
