"""What recorded gradients decide, where the recorded weights begin as equal numbers: on arrays, without a framework."""

import numpy as np
import pytest
from support.port_lists import Port

from parity.experiment.mapping import of_replay as map_of_replay
from parity.experiment.mapping.of_replay import decide_by_recorded
from parity.mapping import draft_mapping, parse_transform
from parity.mapping.by_gradients import by_trial

LAYERS = 3


def blocks():
    """Blocks of two dense layers with a norm behind each, the reference's sorted by name, so that the second comes first."""
    port = Port()
    for number in range(LAYERS):
        for tf, norm, dense in (("ff", "norm2", "out"), ("attention", "norm1", "mix")):
            block = f"layers.{number}"
            port.dense(f"layer_{number}/{tf}/dense", f"{block}.{dense}", 8, 8)
            for role, name in (("beta", "bias"), ("gamma", "weight")):
                port.vector(f"layer_{number}/{tf}/LayerNorm/{role}", f"{block}.{norm}.{name}", 8, "Mul", "LayerNorm")
    port.candidate.sort(key=lambda variable: (variable.name.split(".")[1], variable.name.split(".")[2] == "mix"))
    port.candidate.sort(key=lambda variable: "norm2" in variable.name)
    return port


def one_scope():
    """Convolutions whose bias, beta and gamma are in one scope, all of one length."""
    port = Port()
    for number in range(1, LAYERS + 1):
        port.conv(f"block/conv{number}", f"conv{number}", 1, 6, 6, names=("weights", "biases"))
        port.vector(f"block/conv{number}/beta", f"norm{number}.bias", 6, "Switch", "BatchNorm2d")
        port.vector(f"block/conv{number}/gamma", f"norm{number}.weight", 6, "Switch", "BatchNorm2d")
    return port


def joined(draft):
    return {pair.reference: (pair.candidate, pair.transform.text) for pair in draft.mapping().pairs}


class Recorded:
    """A step of both sides: the candidate's gradients are right where it is given the right numbers, else nearly right."""

    def __init__(self, port, values, silent=()):
        random = np.random.default_rng(0)
        self.port, self.values, self.trials = port, values, 0
        self.known = {v.name: random.standard_normal(v.shape) * (v.name not in silent) for v in port.reference}

    def gradients_of(self, draft, left=()):
        self.trials += 1
        given, meant = {}, {}
        for pair in draft.mapping().pairs:
            given[pair.candidate[0]] = pair.transform.forward(self.values[pair.reference])[0]
        for name, (names, text) in self.port.meant.items():
            meant[names[0]] = name, parse_transform(text)
        right = all(
            np.array_equal(given[name], turned.forward(self.values[of])[0]) for name, (of, turned) in meant.items()
        )
        wrong = 0.0 if right else 0.05
        random = np.random.default_rng(1)
        return {
            name: turned.forward(self.known[of] + wrong * random.standard_normal(self.known[of].shape))[0]
            for name, (of, turned) in meant.items()
        }

    def decide(self, draft):
        return by_trial(draft, self.known, self.gradients_of)


def values_of(port, vectors):
    random = np.random.default_rng(2)
    return {v.name: random.standard_normal(v.shape) if len(v.shape) > 1 else vectors(v.name) for v in port.reference}


def as_they_begin(name):
    return np.full(6 if "conv" in name else 8, float("gamma" in name))


@pytest.mark.parametrize("made", [blocks, one_scope])
def test_norms_that_begin_as_equal_numbers_are_told_apart_by_their_gradients_at_once(made):
    port = made()
    recorded = Recorded(port, values_of(port, as_they_begin))
    draft = draft_mapping(port.reference, port.candidate, {})
    decided = recorded.decide(draft)
    assert joined(decided) == port.meant
    assert decided.agrees
    assert recorded.trials <= 2


def test_the_order_of_these_names_is_misleading():
    port = blocks()
    assert joined(draft_mapping(port.reference, port.candidate, {})) != port.meant


def test_a_port_with_other_gradients_keeps_what_was_guessed_and_is_unverified():
    port = one_scope()
    recorded = Recorded(port, values_of(port, as_they_begin))
    decided = by_trial(
        draft_mapping(port.reference, port.candidate, {}),
        recorded.known,
        lambda draft, left: {name: value + 0.5 for name, value in recorded.gradients_of(draft).items()},
    )
    assert joined(decided) == port.meant
    assert not decided.agrees


@pytest.mark.parametrize(("off", "is_followed"), [(1e-4, True), (1.0, False)])
def test_where_a_bug_leaves_no_gradient_equal_those_that_are_much_nearer_decide(off, is_followed):
    port = blocks()
    recorded = Recorded(port, values_of(port, as_they_begin))
    draft = draft_mapping(port.reference, port.candidate, {})
    random = np.random.default_rng(4)
    # As another decay adds to all of them; where it is as large as they are, nothing is nearer than what was guessed.
    decided = by_trial(
        draft,
        recorded.known,
        lambda tried, left: {
            name: value + off * random.standard_normal(value.shape)
            for name, value in recorded.gradients_of(tried).items()
        },
    )
    assert joined(decided) == (port.meant if is_followed else joined(draft))
    assert not any(guess.verified for guess in decided.guesses)


class Part:
    steps = (0, 5)

    def training(self, mapping):
        return {}


class Trying:
    part, out = Part(), None

    def prepare(self, recorded):
        return {"prepared": "tried"}


def test_a_later_step_decides_what_the_first_one_says_nothing_of(monkeypatch):
    port = blocks()
    random = np.random.default_rng(3)
    norms = [v.name for v in port.reference if len(v.shape) < 2]
    first = Recorded(port, values_of(port, as_they_begin), silent=norms)
    last = Recorded(port, values_of(port, lambda name: random.standard_normal(8)))
    by_step = {0: first, 5: last}
    monkeypatch.setattr(map_of_replay, "_by_step", lambda draft, trying, made, number: by_step[number].decide(draft))
    decided = decide_by_recorded(draft_mapping(port.reference, port.candidate, {}), Trying())
    assert first.trials and last.trials
    assert joined(decided) == port.meant
    assert all(guess.verified for guess in decided.guesses)


def test_a_program_that_shows_no_combined_gradients_is_decided_by_a_towers(monkeypatch):
    port = one_scope()
    recorded = Recorded(port, values_of(port, as_they_begin))
    draft = draft_mapping(port.reference, port.candidate, {})
    launched = []

    class Clipped(Part):
        steps = (0,)
        trace = property(lambda self: self)

        def step(self, number):
            return number

        def tensors(self, number, file):
            return {
                f"{quantity}/{name}": value
                for quantity in ("grad", "tower_grad/0")
                for name, value in recorded.known.items()
            }

    class Launching(Trying):
        part, shadow, at_once = Clipped(), None, 1

    def gradients(drafts, trying, prepared, number):
        launched.extend(drafts)
        return [{"grad": {}, "tower_grad": recorded.gradients_of(each)} for each in drafts]

    monkeypatch.setattr(map_of_replay, "_gradients", gradients)
    decided = decide_by_recorded(draft, Launching())
    assert joined(decided) == port.meant
    assert decided.agrees
    assert len(launched) == recorded.trials <= 2


def test_what_may_be_asked_for_next_is_said_so_that_a_run_can_try_several_at_once():
    port = blocks()
    recorded = Recorded(port, values_of(port, as_they_begin))
    drafts = draft_mapping(port.reference, port.candidate, {})
    asked = []

    def gradients_of(draft, left):
        asked.append((joined(draft), [joined(each) for each in left]))
        return {name: value + 0.5 for name, value in recorded.gradients_of(draft).items()}

    by_trial(drafts, recorded.known, gradients_of, trials=6)
    # None is among those to come once it was asked for, and each that comes was among those of the first time.
    assert all(draft not in left for draft, left in asked)
    assert len(asked[0][1]) == 5
    assert asked[1][0] in asked[0][1]
