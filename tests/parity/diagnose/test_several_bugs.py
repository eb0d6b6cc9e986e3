"""Bugs of several stages, or steps, are each named: what the first leaves as it is, and what is judged by its own inputs."""

import numpy as np
import pytest
from support.made_steps import trace

from parity.diagnose import Evidence, find_causes, find_further
from parity.diagnose.search import first_in_lockstep
from parity.judge import Check, Join
from parity.judge.metrics import distance
from parity.mapping import Mapping, Pair, parse_transform

SHAPES = {"w": (5, 3), "b": (3,), "v": (3, 4)}
KINDS = dict.fromkeys(SHAPES, "weight") | {"m": "statistic"}
FACTS = {"optimizer": {"name": "Momentum", "learning_rate": 0.1, "momentum": 0.9}}
STEPS = range(3)


def drawn(step, what):
    return np.random.default_rng([step, *what.encode()])


def state_before(step):
    made = {f"var/{name}": drawn(step, name).normal(size=shape) for name, shape in SHAPES.items()}
    slots = {f"slot/momentum/{name}": drawn(step, f"slot {name}").normal(size=shape) for name, shape in SHAPES.items()}
    return {**made, **slots, "stat/m": drawn(step, "m").normal(size=4)}


def step_of(
    step, *, towers=(1.0, 1.0), sums=False, momentum=0.9, rate=0.1, share=0.1, loss=1.0, decay=0.0, ahead=False
):
    """What a step of two towers, momentum and a moving statistic leaves, from `state_before`."""
    before, made = state_before(step), {}
    for name, shape in SHAPES.items():
        own = [drawn(step, f"gradient {tower} {name}").normal(size=shape) * by for tower, by in enumerate(towers)]
        own = [each + decay * before[f"var/{name}"] for each in own]
        made |= {f"tower_grad/{tower}/{name}": each for tower, each in enumerate(own)}
        combined = sum(own) / (1 if sums else 2)
        slot = momentum * before[f"slot/momentum/{name}"] + combined
        move = combined + momentum * slot if ahead else slot
        made |= {
            f"grad/{name}": combined,
            f"slot/momentum/{name}": slot,
            f"var/{name}": before[f"var/{name}"] - rate * move,
        }
    batch = drawn(step, "batch").normal(size=4)
    losses = {f"loss/{tower}": np.asarray((1.5 + step + tower) * loss) for tower in range(2)}
    return losses | made | {"stat/m": (1 - share) * before["stat/m"] + share * batch}


@pytest.fixture
def named(tmp_path):
    """Names of the causes of the first difference, and of others; bugs by step, or of every one."""

    def found(everywhere=None, by_step=None, first=None):
        of_step = [{**(everywhere or {}), **(by_step or {}).get(step, {})} for step in STEPS]
        made = [[step_of(step) for step in STEPS], [step_of(step, **of_step[step]) for step in STEPS]]
        sides = [trace(tmp_path / side, steps, KINDS, FACTS) for side, steps in zip("ab", made, strict=True)]
        states = trace(tmp_path / "states", [state_before(step) for step in STEPS], KINDS, {})
        pairs = [
            Pair(name, (name,), parse_transform("identity"), "", shape) for name, shape in {**SHAPES, "m": (4,)}.items()
        ]
        evidence = Evidence(Join(Mapping(pairs), {}, ["momentum"]), *sides, states, 2)
        checks = []
        for step in STEPS:
            for key, text in evidence.join.ordered(sides[0].step(step).names()):
                one, other = sides[0].step(step).read(text), evidence.join.read(key, sides[1].step(step))
                apart, allowed = distance(one, other), 1e-12 * float(np.linalg.norm(one))
                checks.append(Check("lockstep", step, text, "different" if apart > allowed else "same", apart, allowed))
        difference = first_in_lockstep(evidence, checks)
        known = find_causes(difference, evidence)
        further = find_further(difference, known, evidence, checks)
        return difference.quantity, [each.name for each in known], {each.name: each for each in further}

    return found


def test_without_a_bug_there_is_no_first_difference(tmp_path):
    check = Check("lockstep", 0, "var", "same", 0.0, 1e-12)
    evidence = Evidence(Join(Mapping([]), {}, []), None, None, None, 1)
    assert first_in_lockstep(evidence, [check, check._replace(run="free", verdict="different")]) is None


def test_one_bug_has_one_cause_and_nothing_further(named):
    for number, (bug, quantity, cause) in enumerate(
        [
            ({"sums": True}, "grad", "sum_instead_of_mean"),
            ({"momentum": 0.8}, "slot", "momentum"),
            ({"rate": 0.2}, "var", "learning_rate"),
            ({"ahead": True}, "var", "nesterov"),
            ({"share": 0.2}, "stat", "batch_norm_momentum"),
        ]
    ):
        first, known, further = named(bug)
        assert (first, known[:1], list(further)) == (quantity, [cause], []), number


@pytest.mark.parametrize(
    ("bugs", "quantity", "known", "further"),
    [
        ({"sums": True, "rate": 0.2}, "grad", "sum_instead_of_mean", ["learning_rate"]),
        ({"sums": True, "momentum": 0.8}, "grad", "sum_instead_of_mean", ["momentum"]),
        ({"momentum": 0.8, "rate": 0.2}, "slot", "momentum", ["learning_rate"]),
        ({"towers": (2.0, 2.0), "sums": True}, "tower_grad", "gradient_factor", ["sum_instead_of_mean"]),
        ({"towers": (2.0, 2.0), "ahead": True}, "tower_grad", "gradient_factor", ["nesterov"]),
        ({"share": 0.2, "rate": 0.2}, "stat", "batch_norm_momentum", ["learning_rate"]),
        ({"share": 0.2, "towers": (2.0, 2.0)}, "stat", "batch_norm_momentum", ["gradient_factor"]),
    ],
)
def test_a_later_stage_is_judged_by_its_own_inputs(named, bugs, quantity, known, further):
    first, causes, behind = named(bugs)
    assert (first, causes[:1]) == (quantity, [known])
    assert list(behind) == further
    assert all(cause.explains is not None for cause in behind.values())
    if (quantity, further) == ("stat", ["gradient_factor"]):
        assert behind["gradient_factor"].explains.key == "the gradients", "all of them at once"


def test_an_earlier_quantity_of_a_later_step_has_a_cause_of_its_own(named):
    first, known, further = named({"rate": 0.2}, {1: {"loss": 2.0}})
    assert first == "var" and known[:1] == ["learning_rate"]
    assert set(further) == {"gradient_factor"} and further["gradient_factor"].explains.key == "loss/0"
    assert further["gradient_factor"].explains.step == 1
    first, known, further = named({}, {0: {"momentum": 0.8}, 2: {"sums": True}})
    assert (first, known[:1], list(further)) == ("slot", ["momentum"], ["sum_instead_of_mean"])
