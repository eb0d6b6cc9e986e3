"""Ports that hold other variables than the reference: joined as far as it goes, run, and different for the reason told."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.made_steps import trace
from support.tiny_case import write_case

from parity.case import load_case
from parity.diagnose import Evidence
from parity.diagnose.variables import (
    Read,
    read_in_place,
    shared_by_uses,
    shared_where_read,
    structural_causes,
    structural_check,
)
from parity.experiment import level_details, run_case
from parity.experiment.level_details import EFFECTLESS, with_structure
from parity.judge import Join
from parity.judge.result import Cause, Check, Explained, FirstDifference, Level
from parity.mapping import MappingError, Structure, Variable, as_far_as_it_goes, draft_mapping
from parity.trace import ForwardOp

CONV = Variable("conv/kernel", (3, 3, 1, 4), use="Conv2D")
DENSE = Variable("dense/kernel", (64, 10), use="MatMul")
BIAS = Variable("dense/bias", (10,), use="BiasAdd")
TABLE = Variable("table", (20, 6), use="GatherV2")
OTHER = Variable("other/kernel", (9, 11), use="MatMul")
TIED = Variable("table", (20, 6), use="GatherV2+MatMul")
PORT = {
    "conv": Variable("conv.weight", (4, 1, 3, 3), use="Conv2d"),
    "dense": Variable("dense.weight", (10, 64), use="Linear"),
    "bias": Variable("dense.bias", (10,), use="Linear"),
    "table": Variable("table.weight", (20, 6), use="Embedding"),
    "larger": Variable("table.weight", (21, 6), use="Embedding"),
    "wider": Variable("conv.weight", (6, 1, 3, 3), use="Conv2d"),
    "head": Variable("head.weight", (20, 6), use="Linear"),
    "fewer": Variable("more.weight", (7, 64), use="Linear"),
    "more": Variable("more.weight", (7, 10), use="Linear"),
}


def structure(reference, *names):
    return as_far_as_it_goes(draft_mapping(reference, [PORT[name] for name in names], {}))


def told(found):
    return (
        [each.name for each in found.missing],
        [each.name for each in found.extra],
        [(one.name, other.name) for one, other in found.resized],
        [(one.name, [each.name for each in parts]) for one, parts in found.untied],
    )


@pytest.mark.parametrize(
    ("reference", "port", "expected"),
    [
        ([CONV, DENSE, BIAS], ["conv", "dense", "bias"], ([], [], [], [])),
        ([CONV, DENSE, BIAS], ["conv", "dense"], (["dense/bias"], [], [], [])),
        ([CONV, DENSE], ["conv", "dense", "bias"], ([], ["dense.bias"], [], [])),
        ([CONV, DENSE, BIAS], ["dense", "bias"], (["conv/kernel"], [], [], [])),
        ([CONV, DENSE], ["conv", "dense", "more"], ([], ["more.weight"], [], [])),
        ([TABLE, CONV], ["larger", "conv"], ([], [], [("table", "table.weight")], [])),
        ([TABLE, CONV], ["table", "wider"], ([], [], [("conv/kernel", "conv.weight")], [])),
        ([TABLE, CONV], ["more", "conv"], (["table"], ["more.weight"], [], [])),  # rows of a table are no product
        ([DENSE, CONV], ["fewer", "conv"], ([], [], [("dense/kernel", "more.weight")], [])),
        ([DENSE, CONV], ["more", "conv"], (["dense/kernel"], ["more.weight"], [], [])),  # 10 out there, 10 in here
        ([OTHER, CONV], ["more", "conv"], (["other/kernel"], ["more.weight"], [], [])),  # no axis in common
        ([TIED, CONV], ["table", "head", "conv"], ([], [], [], [("table", ["table.weight", "head.weight"])])),
    ],
)
def test_what_one_side_alone_holds_is_told_and_all_else_is_joined(reference, port, expected):
    draft, found = structure(reference, *port)
    assert draft.total
    assert told(found) == expected


@pytest.mark.parametrize("question", [None, MappingError("which?")])
def test_a_parameter_of_the_port_that_nothing_comes_of_is_mentioned(question):
    level = Level("function", "same", "", [], None)
    evidence = SimpleNamespace(candidate=SimpleNamespace(step_numbers=[]))
    level = with_structure(level, Structure(extra=(PORT["more"],)), question, None, evidence)
    assert level.verdict == "same" and not level.causes
    assert "more.weight of the port" in level.notes[0]


@pytest.fixture
def told_of(monkeypatch):
    """Puts variables that one side alone has into a level; what is told of them is named, here and elsewhere."""

    def run(
        quantity,
        structure,
        located,
        here=(),
        elsewhere=(),
        check=True,
        trained=False,
        question=None,
        shared=False,
        of="numbers",
        step=0,
    ):
        read = Read(frozenset(["read"]), frozenset(), "act/0/dense", 0)
        found = Check("lockstep", 0, "state/parameters", "different") if check else None
        causes = {read: here, None: elsewhere}
        names = {
            "structural_causes": lambda structure, evidence, read: [cause_named(name) for name in causes[read]],
            "structural_check": lambda structure, evidence: found,
            "trained_extras": lambda structure, evidence: trained,
            "read_in_place": lambda structure, asked: structure._replace(extra=(PORT["bias"],)),
            "_read": lambda located, evidence: read,
            "is_place_only": lambda name: name == "place",
            "shared_by_uses": lambda structure, evidence, ops, explains: cause_named("shared") if shared else None,
        }
        for name, function in names.items():
            monkeypatch.setattr(level_details, name, function)
        before = Check("lockstep", step, "grad/w", "different" if quantity else "same")
        first = FirstDifference(before, quantity, "w", "0", None) if quantity else None
        level = Level("function", before.verdict, "", [before], first, [cause_named(of)])
        return level, with_structure(level, structure, question, located, None)

    return run


def cause_named(name):
    return Cause(name, "", "", "")


def names_of(level):
    return [cause.name for cause in level.causes]


def test_a_parameter_of_two_uses_comes_before_what_says_the_place_alone(told_of):
    place = SimpleNamespace(place=SimpleNamespace(passes=(SimpleNamespace(ops=[]), SimpleNamespace(ops=[]))))
    found, missing = Structure(missing=(BIAS,)), ["missing_parameter"]
    _, level = told_of("act", found, place, [], missing, shared=True, of="place")
    assert names_of(level) == ["shared", "place", "missing_parameter"]
    _, level = told_of("act", found, place, [], missing, shared=True)
    assert names_of(level) == ["numbers", "missing_parameter"], "what says more is of another bug"
    _, level = told_of("act", found, place, [], missing, of="place")
    assert names_of(level) == ["place", "missing_parameter"]


@pytest.mark.parametrize(
    ("step", "trained", "first"), [(0, True, "act"), (1, True, "state"), (2, True, "state"), (1, False, "act")]
)
def test_what_differs_in_a_later_step_comes_behind_what_an_update_has_made_of_a_parameter_more(
    told_of, step, trained, first
):
    found, named = Structure(extra=(PORT["more"],)), ["extra_parameter"]
    _, level = told_of("act", found, SimpleNamespace(), [], named, trained=trained, step=step)
    assert level.first_difference.quantity == first
    assert names_of(level) == (["extra_parameter", "numbers"] if first == "state" else ["numbers", "extra_parameter"])


def reading(*names):
    return [ForwardOp(f"op{at}", "MatMul", [], [name], [1], {}) for at, name in enumerate(names)]


@pytest.mark.parametrize(
    ("graph", "port", "named"),
    [
        (["dense/kernel", "second/kernel"], ["dense.weight", "dense.weight"], True),
        (["dense/kernel", "second/kernel"], ["dense.weight"], False),  # the second layer is not there at all
        (["dense/kernel", "second/kernel"], ["dense.weight"] * 3, False),  # a loop, of which a graph shows one step
        (["dense/kernel"] * 2, ["dense.weight"] * 2, False),  # nothing reads the second variable
    ],
)
def test_a_parameter_that_stands_for_two_variables_is_read_as_often_as_both(evidence, graph, port, named):
    draft, found = structure([DENSE, Variable("second/kernel", (64, 10), use="MatMul")], "dense")
    passes, key = (reading(*graph), reading(*port)), Explained(2, "act/0/dense")
    told = shared_by_uses(found, evidence(draft, {}), passes, key)
    assert (told is not None) == named
    if told is not None:
        assert (told.name, told.explains) == ("shared_parameter", key)
        assert "dense.weight where the reference has second/kernel" in told.title
    draft, found = structure([DENSE, BIAS], "dense")
    biased = ["dense/kernel", "dense/bias"], ["dense.weight"] * 2
    assert shared_by_uses(found, evidence(draft, {}), tuple(reading(*each) for each in biased), key) is None


@pytest.mark.parametrize(
    ("read", "port", "named"),
    [
        ("b/kernel", "aaac", True),
        ("b/kernel", "abac", False),  # each as often as in the reference
        ("a/kernel", "aaac", False),  # not what is read where they part
        ("b/kernel", "aaaac", False),  # a loop, of which a graph shows one step
        ("b/kernel", "aaccb", False),  # b is read
        ("c/kernel", "aabb", False),  # of another shape
    ],
)
def test_a_parameter_is_shared_that_is_read_once_more_in_place_of_another_of_its_shape(evidence, read, port, named):
    variables = [Variable(f"{name}/kernel", (4, 3 if name == "c" else 4), use="MatMul") for name in "abc"]
    parameters = [Variable(f"{name}.weight", (3 if name == "c" else 4, 4), use="Linear") for name in "abc"]
    draft, _ = as_far_as_it_goes(draft_mapping(variables, parameters, {}))
    passes = reading("a/kernel", "a/kernel", "b/kernel", "c/kernel"), reading(*(f"{name}.weight" for name in port))
    key = Explained(2, "act/0/b")
    told = shared_where_read([read], evidence(draft, {}), passes, key)
    assert (told is not None) == named
    if told is not None:
        assert (told.name, told.explains) == ("shared_parameter", key)
        assert told.title.startswith("the port computes with a.weight where the reference has b/kernel")
        assert "(3 times for 2)" in told.evidence and "(0 times for 1)" in told.evidence


@pytest.mark.parametrize(
    ("port", "names"),
    [("aaa", "b/kernel and c/kernel"), ("aac", "b/kernel"), ("aab", "c/kernel"), ("aaaa", None), ("aaab", None)],
)
def test_a_parameter_may_be_read_in_place_of_several(evidence, port, names):
    variables = [Variable(f"{name}/kernel", (4, 4), use="MatMul") for name in "abc"]
    parameters = [Variable(f"{name}.weight", (4, 4), use="Linear") for name in "abc"]
    draft, _ = as_far_as_it_goes(draft_mapping(variables, parameters, {}))
    passes = reading("a/kernel", "b/kernel", "c/kernel"), reading(*(f"{name}.weight" for name in port))
    told = shared_where_read(["b/kernel", "c/kernel"], evidence(draft, {}), passes, Explained(2, "act/0/b"))
    assert (told.title.partition(" where the reference has ")[2].partition(", ")[0] if told else None) == names


@pytest.mark.parametrize("quantity", ["act", "stat", "loss"])
def test_what_is_told_of_the_place_comes_first_and_what_one_side_holds_elsewhere_last(told_of, quantity):
    found = Structure(missing=(BIAS,))
    before, level = told_of(quantity, found, "located", ["missing"], ["missing", "extra", "other"])
    assert names_of(level) == ["missing", "numbers", "extra", "other"]
    assert level.first_difference == before.first_difference
    assert [check.key for check in level.checks] == ["grad/w", "state/parameters"]
    _, level = told_of(quantity, found, None, ["missing"], ["missing", "extra"])
    assert names_of(level) == ["numbers", "missing", "extra"], "nothing is read where no place is known"


@pytest.mark.parametrize("quantity", ["grad", "var", "state", None])
def test_where_no_layer_differs_the_parameters_themselves_are_the_first_difference(told_of, quantity):
    found = Structure(missing=(BIAS,))
    _, level = told_of(quantity, found, "located", ["missing"], ["elsewhere"])
    assert names_of(level) == ["elsewhere", "numbers"] and level.verdict == "different"
    first = level.first_difference
    assert (first.check, first.quantity, first.name, first.tower) == (level.checks[-1], "state", "parameters", "")


@pytest.mark.parametrize("quantity", ["grad", "act"])
def test_what_is_no_difference_of_parameters_leaves_the_level(told_of, quantity):
    before, level = told_of(quantity, Structure(extra=(PORT["more"],)), None, check=False)
    assert (level.verdict, level.checks, level.first_difference) == (
        before.verdict,
        before.checks,
        before.first_difference,
    )
    assert names_of(level) == ["numbers"]


def test_the_same_variables_leave_the_level(told_of):
    before, level = told_of("act", Structure(), "located", ["missing"], ["elsewhere"])
    assert level is before


MISSING, RESIZED = Structure(missing=(BIAS,)), Structure(resized=((TABLE, PORT["larger"]),))


@pytest.mark.parametrize("found", [MISSING, RESIZED])
def test_where_nothing_differs_and_something_is_missing_the_mapping_is_asked_for(told_of, found):
    question = MappingError("which?")
    with pytest.raises(MappingError, match="which"):
        told_of(None, found, None, question=question)
    assert told_of("grad", found, None, question=question)[1].verdict == "different"
    assert told_of(None, found, None)[1].verdict == "different", "there is nothing to be asked"
    assert told_of(None, found, None, trained=True, question=question)[1].verdict == "different"


def test_where_nothing_differs_what_has_no_effect_is_noted_and_what_has_one_is_different(told_of):
    extra = Structure(extra=(PORT["more"], PORT["bias"]))
    before, level = told_of(None, extra, None)
    assert (level.verdict, level.notes) == ("same", [EFFECTLESS.format("more.weight, dense.bias")])
    assert names_of(level) == ["numbers"] and level.checks == before.checks
    assert told_of(None, extra, "located")[1].notes == [EFFECTLESS.format("dense.bias")]
    assert told_of(None, extra, None, trained=True)[1].verdict == "different"
    untied = extra._replace(untied=((TIED, (PORT["table"], PORT["head"])),))
    assert told_of(None, untied, None)[1].verdict == "different"


def test_one_of_two_layers_alike_is_missing_and_the_other_is_joined_by_name():
    reference = [Variable(f"{name}/kernel", (8, 8), use="MatMul") for name in ("first", "second", "third")]
    port = [Variable(f"{name}.weight", (8, 8), use="Linear") for name in ("first", "third")]
    draft, found = as_far_as_it_goes(draft_mapping(reference, port, {}))
    assert told(found)[0] == ["second/kernel"]
    assert [pair.candidate for pair in draft.mapping().pairs] == [("first.weight",), (), ("third.weight",)]


def test_as_many_numbers_on_either_side_are_a_question_of_layout():
    draft, found = as_far_as_it_goes(
        draft_mapping([Variable("qkv", (8, 24), use="MatMul")], [Variable("q.w", (4, 48), use="Linear")], {})
    )
    assert not draft.total
    assert not found


def test_copies_carry_values_to_each_and_gradients_back_as_their_sum():
    draft, _ = structure([TIED, CONV], "table", "head", "conv")
    pair, value = draft.mapping().pair("table"), np.arange(120.0).reshape(20, 6)
    made = draft.mapping().to_candidate("table", value)
    assert all(np.array_equal(each, value) for each in made.values())
    parts = dict(zip(pair.candidate, (value, 3 * value), strict=True))
    assert np.array_equal(draft.mapping().to_reference("table", parts), 2 * value)
    assert np.array_equal(draft.mapping().to_reference("table", parts, linear=True), 4 * value)


@pytest.fixture
def evidence(tmp_path):
    def make(draft, gradients):
        kinds, step = {"dense/kernel": "weight"}, {"grad/dense/kernel": np.ones((64, 10))}
        own = {"grad/dense.weight": np.ones((10, 64)), **gradients}
        sides = (
            trace(tmp_path / "tf", [step], kinds, {}),
            trace(tmp_path / "torch", [own], {"dense.weight": "weight"}, {}),
        )
        return Evidence(Join(draft.mapping(), {}, []), *sides, None, 2)

    return make


@pytest.mark.parametrize(("size", "trained"), [(1.0, True), (1e-13, False)])
def test_a_parameter_more_is_a_difference_where_more_than_rounding_trains_it(evidence, size, trained):
    draft, found = structure([DENSE], "dense", "bias")
    check = structural_check(found, evidence(draft, {"grad/dense.bias": np.full(10, size)}))
    assert (check is not None) == trained
    if check is not None:
        assert (check.key, check.verdict) == ("state/parameters", "different")


def test_only_what_is_read_where_the_passes_part_is_the_cause_there(evidence):
    draft, found = structure([DENSE, BIAS], "dense")
    known = evidence(draft, {})
    there = Read(frozenset(["dense/bias"]), frozenset(["dense.weight"]), "act/0/dense", 0)
    (cause,) = structural_causes(found, known, there)
    assert (cause.name, cause.explains.key) == ("missing_parameter", "act/0/dense")
    assert not structural_causes(found, known, there._replace(reference=frozenset(["conv/kernel"])))


def test_a_layer_that_is_called_twice_is_told_from_one_that_is_missing(evidence):
    other = Variable("second/kernel", (64, 10), use="MatMul")
    draft, found = structure([DENSE, other], "dense")
    read = Read(frozenset(["second/kernel"]), frozenset(["dense.weight"]), "act/0/second", 0)
    (cause,) = structural_causes(found, evidence(draft, {}), read)
    assert cause.name == "shared_parameter"
    assert "dense.weight where the reference has second/kernel" in cause.title


def test_what_is_told_of_variables_of_one_side_alone(evidence):
    def causes(reference, *names, gradients=None, read=None):
        draft, found = structure(reference, *names)
        return structural_causes(found, evidence(draft, gradients or {}), read)

    (missing,) = causes([DENSE, BIAS], "dense")
    assert missing.name == "missing_parameter" and "dense/bias [10]" in missing.title
    assert missing.explains == (0, "state/parameters", None)
    assert missing.evidence == "no parameter of the port has such a shape or name; what was joined is all that it has"
    (extra,) = causes([DENSE], "dense", "bias", gradients={"grad/dense.bias": np.ones(10)})
    assert extra.name == "extra_parameter" and "dense.bias [10]" in extra.title
    assert extra.evidence == "no variable of the reference belongs to it; it gets a gradient, and is updated"
    assert causes([DENSE], "dense", "bias") == [], "nothing trains it"
    there = Read(frozenset(), frozenset(["dense.bias"]), "act/0/dense", 3)
    (idle,) = causes([DENSE], "dense", "bias", read=there)
    assert idle.evidence.endswith("it is not trained") and idle.explains == (3, "act/0/dense", None)
    (resized,) = causes([TABLE, CONV], "larger", "conv")
    assert resized.name == "parameter_shape" and "[21, 6]" in resized.title and "[20, 6]" in resized.title
    for read, count in ((there._replace(candidate=frozenset(["table.weight"])), 1), (there, 0)):
        assert len(causes([TABLE, CONV], "larger", "conv", read=read)) == count


@pytest.mark.parametrize(
    ("gradient", "trained"), [(1e-9, False), (1.1e-9, True), (np.nan, True), (np.inf, True), (0.0, False)]
)
def test_what_trains_is_more_than_a_billionth_of_the_largest_gradient(evidence, gradient, trained):
    draft, found = structure([DENSE], "dense", "bias")
    size = np.sqrt(640.0) * gradient  # of the largest gradient, 640 ones
    own = {"grad/dense.bias": np.array([size] + [0.0] * 9)}
    assert bool(structural_causes(found, evidence(draft, own), None)) == trained


@pytest.mark.parametrize(
    ("factor", "words"), [(0.5, "their gradients together are"), (0.7, "each of them gets a gradient")]
)
def test_weights_that_are_tied_in_the_reference_alone_are_told_by_their_gradients(tmp_path, factor, words):
    draft, found = structure([TIED, CONV], "table", "head", "conv")
    whole = np.arange(120.0).reshape(20, 6)
    sides = (
        trace(tmp_path / "tf", [{"grad/table": whole}], {"table": "weight"}, {}),
        trace(
            tmp_path / "torch", [{f"grad/{name}": factor * whole for name in ("table.weight", "head.weight")}], {}, {}
        ),
    )
    (cause,) = structural_causes(found, Evidence(Join(draft.mapping(), {}, []), *sides, None, 2), None)
    assert cause.name == "untied_weights" and cause.evidence.startswith(words)
    assert "table.weight and head.weight" in cause.title or "head.weight and table.weight" in cause.title


def test_the_same_variables_are_no_structure(evidence):
    draft, found = structure([DENSE], "dense")
    assert not found
    assert structural_check(found, evidence(draft, {})) is None
    assert Structure(missing=(DENSE,))


@pytest.mark.parametrize(
    ("changes", "key", "cause"),
    [
        ([("nn.Linear(3, 2)", "nn.Linear(3, 2, bias=False)")], "act/0/dense", "missing_parameter"),
        (
            [
                ("nn.Linear(3, 2)", "nn.Linear(4, 2)"),
                ("return self.dense(x)", "return self.dense(nn.functional.pad(x, (0, 1)))"),
            ],
            "act/0/dense",
            "parameter_shape",
        ),
        (
            [
                ("nn.Linear(3, 2)", "nn.Linear(3, 2, bias=False)\n        self.biases = [nn.Parameter(torch.ones(2))]"),
                ("return self.dense(x)", "return self.dense(x) + self.biases[0]"),
            ],
            "act/0/dense",
            "missing_parameter",
        ),
    ],
)
@pytest.mark.slow
def test_a_port_with_other_parameters_is_different_and_not_an_error(tf2_sides, tmp_path, changes, key, cause):
    write_case(tmp_path / "case")
    file = tmp_path / "case" / "model_torch.py"
    text = "import torch\n" + file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    result = run_case(load_case(tmp_path / "case"), tf2_sides)
    assert result.verdict == "different"
    assert result.first_difference.check.key == key
    assert result.causes[0].name == cause
    assert ("biases[0]" in result.causes[0].evidence) == ("biases" in text)


def test_the_only_two_vectors_that_are_left_are_one_where_they_are_read_in_one_place():
    slopes, one = Variable("stage/alphas", (20,)), Variable("stage.act.weight", (1,))
    found = Structure(missing=(slopes, BIAS), extra=(one, PORT["more"]))
    there = Read(frozenset(["stage/alphas"]), frozenset(["stage.act.weight"]), "act/0/stage", 0)
    taken = read_in_place(found, there)
    assert told(taken)[:3] == (["dense/bias"], ["more.weight"], [("stage/alphas", "stage.act.weight")])
    assert read_in_place(found, there._replace(candidate=frozenset())) == found
    both = there._replace(reference=frozenset(["stage/alphas", "dense/bias"]))
    assert read_in_place(found, both) == found
