"""Of several optimizers each is judged by its own slots, rate and settings, and by the variables that it trains."""

import numpy as np
import pytest
from support.made_steps import trace

from parity.diagnose import Evidence, find_causes, find_further
from parity.judge import Check, FirstDifference, Join
from parity.mapping import Mapping, Pair, parse_transform
from parity.trace import parse_key

GENERATOR = np.random.default_rng(0)
SHAPES = {"body/kernel": (4, 3), "body/bias": (3,), "head/kernel": (3, 5), "head/bias": (5,)}
WEIGHTS = {name: GENERATOR.standard_normal(shape) for name, shape in SHAPES.items()}
GRADIENTS = [{name: GENERATOR.standard_normal(shape) for name, shape in SHAPES.items()} for _ in range(3)]
SLOTS = [{name: GENERATOR.standard_normal(shape) for name, shape in SHAPES.items()} for _ in range(3)]
# Two momentum optimizers: the first trains the body, and keeps its slots and counters in no section.
BODY, HEAD = {"rate": 0.1, "momentum": 0.9}, {"rate": 0.02, "momentum": 0.5}
FACTS = {
    "optimizer": {"name": "MomentumOptimizer", "learning_rate": 0.1, "momentum": 0.9},
    "optimizers": {"head": {"name": "MomentumOptimizer", "learning_rate": 0.02, "momentum": 0.5}},
}


def prefix(name):
    return "section/head/" if name.startswith("head") else ""


def step(number, body=BODY, head=HEAD, slots=True):
    """Returns what a step leaves of the same state; without slots the head's optimizer is plain gradient descent."""
    made = {f"grad/{name}": value for name, value in GRADIENTS[number].items()}
    for name, gradient in GRADIENTS[number].items():
        own = head if prefix(name) else body
        kept = slots or not prefix(name)
        slot = own["momentum"] * SLOTS[number][name] + gradient if kept else gradient
        if kept:
            made[f"{prefix(name)}slot/momentum/{name}"] = slot
        decayed = own.get("decay", 0.0) * WEIGHTS[name]
        made[f"var/{name}"] = WEIGHTS[name] - own["rate"] * (slot + decayed)
    made["state/learning_rate"] = np.float64(own_rate(body, number))
    made["section/head/state/learning_rate"] = np.float64(own_rate(head, number))
    return made


def own_rate(own, number):
    return own.get("rates", [own["rate"]] * 3)[number]


def before(number, slots=True):
    state = {f"var/{name}": value for name, value in WEIGHTS.items()}
    state |= {
        f"{prefix(name)}slot/momentum/{name}": value
        for name, value in SLOTS[number].items()
        if slots or not prefix(name)
    }
    return {**state, "state/learning_rate": np.float64(0.1), "section/head/state/learning_rate": np.float64(0.02)}


def evidence_of(folder, candidate, reference=None, slots=True):
    numbers = range(3)
    pairs = [Pair(name, (name,), parse_transform("identity"), "", shape) for name, shape in SHAPES.items()]
    kinds = dict.fromkeys(SHAPES, "weight")
    one = [step(number, slots=slots, **(reference or {})) for number in numbers]
    other = [step(number, slots=slots, **candidate) for number in numbers]
    return Evidence(
        Join(Mapping(pairs), {}, ["momentum"]),
        trace(folder / "reference", one, kinds, FACTS),
        trace(folder / "candidate", other, kinds, {}),
        trace(folder / "states", [before(number, slots) for number in numbers], kinds, {}),
        2,
    )


def difference(key, at=0):
    parsed = parse_key(key)
    check = Check("lockstep", at, key, "different", 1.0, 1e-15)
    return FirstDifference(check, parsed.quantity, parsed.name, parsed.tower, None)


HEADS_SLOT = "section/head/slot/momentum/head/kernel"


def test_a_share_that_the_second_optimizer_keeps_is_read_off_its_own_slots(tmp_path):
    (cause,) = find_causes(difference(HEADS_SLOT), evidence_of(tmp_path, {"head": {**HEAD, "momentum": 0.7}}))
    assert cause.name == "momentum"
    assert "0.7" in cause.title
    assert "0.5" in cause.title
    assert cause.evidence.endswith("; what differs is of the optimizer head")


def test_a_share_of_the_first_optimizer_is_asked_of_no_slot_of_the_second(tmp_path):
    evidence = evidence_of(tmp_path, {"body": {**BODY, "momentum": 0.8}})
    (cause,) = find_causes(difference("slot/momentum/body/kernel"), evidence)
    assert (cause.name, "0.8" in cause.title, "0.9" in cause.title) == ("momentum", True, True)
    assert cause.evidence.endswith("; what differs is of the first optimizer")


@pytest.mark.parametrize(("part", "own", "rate"), [("head", HEAD, 0.02), ("body", BODY, 0.1)])
def test_decay_beside_the_update_is_measured_by_the_rate_of_its_optimizer(tmp_path, part, own, rate):
    evidence = evidence_of(tmp_path, {part: {**own, "decay": 0.25}})
    causes = find_causes(difference(f"var/{part}/kernel"), evidence)
    assert {cause.name for cause in causes} == {"weight_decay"}
    assert "off by 0.25 times the weight" in causes[0].evidence
    assert f"{part}/kernel, {part}/bias" in causes[0].evidence  # the other optimizer's have none
    assert evidence.of_optimizer(difference(f"var/{part}/kernel")).learning_rate(0) == pytest.approx(rate)
    assert evidence.learning_rate(0) is None


def test_a_rate_of_the_second_optimizer_is_that_of_its_variables_alone(tmp_path):
    evidence = evidence_of(tmp_path, {"head": {**HEAD, "rate": 0.03}})
    names = {cause.name: cause.title for cause in find_causes(difference("var/head/kernel"), evidence)}
    assert "1.5 for head/kernel, head/bias" in names["learning_rate"]


@pytest.mark.parametrize("named", ["head/kernel", "head/bias"])
def test_variables_without_slots_belong_to_the_optimizer_that_keeps_none(tmp_path, named):
    evidence = evidence_of(tmp_path, {"head": {**HEAD, "rate": -0.02}}, slots=False)
    causes = find_causes(difference(f"var/{named}"), evidence)
    assert {cause.name for cause in causes} == {"sign"}
    assert "every variable" in causes[0].evidence
    assert causes[0].evidence.endswith("; what differs is of the optimizer head")


def test_an_update_by_another_rate_is_of_the_same_gradients_and_not_of_clipped_ones(tmp_path):
    evidence = evidence_of(tmp_path, {"head": {**HEAD, "rate": 0.01}}, slots=False)
    names = [cause.name for cause in find_causes(difference("var/head/kernel"), evidence)]
    assert "learning_rate" in names and "clipping" not in names


def test_a_schedule_of_the_second_optimizer_that_comes_late_is_named(tmp_path):
    rates = [0.02, 0.01, 0.005]
    late = {"head": {**HEAD, "rates": [0.04, *rates[:2]]}}
    evidence = evidence_of(tmp_path, late, {"head": {**HEAD, "rates": rates}})
    causes = find_causes(difference("section/head/state/learning_rate"), evidence)
    assert [cause.name for cause in causes] == ["shifted_schedule"]
    assert not find_causes(difference("state/learning_rate"), evidence)  # the first optimizer's is the same


def test_an_optimizer_that_is_never_called_leaves_its_own_variables_and_no_others(tmp_path):
    evidence = evidence_of(tmp_path, {"head": {**HEAD, "rate": 0.0}})
    first = find_causes(difference("var/head/kernel"), evidence)[0]
    assert first.title == "head/kernel, head/bias gets no update"
    assert "2 others move" in first.evidence


def test_a_bug_of_the_second_optimizer_is_found_behind_one_of_the_first(tmp_path):
    evidence = evidence_of(tmp_path, {"body": {**BODY, "momentum": 0.8}, "head": {**HEAD, "rate": 0.03}})
    first = difference("slot/momentum/body/kernel")
    known = find_causes(first, evidence)
    further = find_further(first, known, evidence, [first.check])
    assert [cause.name for cause in known] == ["momentum"]
    assert [cause.name for cause in further] == ["learning_rate"]
    assert "1.5 for head/kernel, head/bias" in further[0].title


def test_where_nothing_tells_whose_a_variable_is_no_rate_is_taken_for_its(tmp_path):
    plain = [{text: value for text, value in step(number).items() if "/slot/" not in f"/{text}"} for number in range(3)]
    evidence = evidence_of(tmp_path / "made", {})
    kinds = dict.fromkeys(SHAPES, "weight")
    sides = [trace(tmp_path / side, plain, kinds, FACTS) for side in ("reference", "candidate")]
    unknown = Evidence(evidence.join, *sides, evidence.states, 2)
    assert unknown.of_optimizer(difference("var/head/kernel")) is unknown
    assert unknown.learning_rate(0) is None
