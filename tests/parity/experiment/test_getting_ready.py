"""What the port's optimizers are told, and how both sides' names are joined, before anything is run."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from parity.case.optimizers import WeightDecay
from parity.experiment.prepare import _joined, _racing, _slot_notes
from parity.mapping import Mapping, MappingEntry, Pair, parse_transform
from parity.trace import parse_key

PAIRS = {
    "conv/kernel": ("conv.weight",),
    "tied/kernel": ("head.weight", "table.weight"),
    "table": ("table.weight",),
    "norm/moving_mean": ("norm.running_mean",),
}
KINDS = {name: {"kind": "statistic" if "moving" in name else "weight"} for name in PAIRS}
MAPPING = Mapping([Pair(name, own, parse_transform("identity"), "", (2,)) for name, own in PAIRS.items()])


class Candidate:
    """A port whose optimizer keeps these slots; it notes what it is told, and when."""

    def __init__(self, *slots):
        self.told, self._slots = [], [*slots]

    def decay_only(self, names):
        self.told.append(("decay_only", names))

    def give_to_parts(self, taken):
        self.told.append(("give_to_parts", taken))

    def prepare(self, precision):
        self.told.append(("prepare", precision))
        answer = Future()
        answer.set_result({"facts": {"slots": self._slots}})
        return answer


def case(decay=None, parts=None, entries=None, optimizer=True):
    chosen = SimpleNamespace(weight_decay=decay) if optimizer else None
    return SimpleNamespace(optimizer=chosen, optimizers=parts or {}, mapping_of=entries or {})


def joined(of_case, candidate, **facts):
    return _joined(of_case, candidate, MAPPING, {"variables": KINDS, "facts": facts})


def test_the_only_slots_that_are_left_are_joined_where_the_references_are_known():
    join = joined(case(), Candidate("own", "exp_avg"), slots=["m", "Hidden"])
    assert join.joined_slots == {"Hidden": "own"}
    assert join.candidates(parse_key("slot/Hidden/conv/kernel")) == ("slot/own/conv.weight",)
    assert _slot_notes(join) == [
        "the slot Hidden of the reference was taken for own of the port: each is the only one that no name matches"
    ]
    assert joined(case(), Candidate("own", "exp_avg")).joined_slots == {}
    assert _slot_notes(joined(case(), Candidate())) == []


def test_names_of_each_quantity_are_those_of_its_entries():
    join = joined(case(entries={"act": {"dense": MappingEntry(to=["fc"])}, "feed": {}}), Candidate())
    assert join.candidates(parse_key("act/0/dense")) == ("act/0/fc",)
    assert join.candidates(parse_key("feed/0/dense")) == ("feed/0/dense",)


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        ("kernel", ["conv.weight", "head.weight", "table.weight"]),
        ("^t", ["head.weight", "table.weight"]),
        ("nothing", []),
    ],
)
def test_a_port_is_told_once_by_its_own_names_what_decays_before_it_is_built(only, chosen):
    candidate = Candidate()
    joined(case(WeightDecay(coefficient=0.1, only=only)), candidate)
    assert candidate.told == [("decay_only", chosen), ("prepare", "float32")]


@pytest.mark.parametrize("of_case", [case(), case(WeightDecay(coefficient=0.1)), case(optimizer=False)])
def test_where_all_or_nothing_decays_a_port_is_told_nothing(of_case):
    candidate = Candidate()
    joined(of_case, candidate)
    assert candidate.told == [("prepare", "float32")]


def test_each_optimizer_is_told_its_weights_and_none_takes_a_statistic():
    parts = {name: SimpleNamespace(only=only) for name, only in (("some", "^t"), ("all", None), ("none", "moving"))}
    candidate = Candidate()
    joined(case(parts=parts), candidate)
    every = ["conv.weight", "head.weight", "table.weight"]
    assert candidate.told == [
        ("give_to_parts", {"some": every[1:], "all": every, "none": []}),
        ("prepare", "float32"),
    ]


def test_statistics_and_averages_that_race_are_called_as_traces_call_them():
    facts = {"racing_statistics": ["norm/mean"], "racing_averages": ["w", "b"]}
    assert _racing(facts) == {"stat/norm/mean", "ema/w", "ema/b"}
    assert _racing({"racing_averages": ["w"]}) == {"ema/w"} and _racing({}) == frozenset()
