"""Where a weight stands in the graph says which it is where nothing behind a bug is the other side's number."""

import pytest

from parity.experiment.mapping.by_neighbours import Neighbours, by_neighbours
from parity.experiment.mapping.by_structure import Structure
from parity.mapping import Numbers, Variable, draft_mapping
from parity.trace import ForwardOp


def op(kind, inputs, *weights):
    return ForwardOp(kind, kind, inputs, list(weights), [4, 3], {})


class Known(Numbers):
    """Numbers that agree with some pairs, given by both names, and say nothing of the others, or contradict them."""

    def __init__(self, *pairs, others=None):
        self._pairs, self._others = pairs, others

    def __call__(self, variable, unit, text):
        return 0.0 if (variable.name, *unit.names) in self._pairs else self._others


def stacks():
    """Two stacks: what the first gives goes through a norm and on through a kernel that is declared behind the second's."""
    ours = [op("MatMul", [], "a/w"), op("Add", [0], "norm/b"), op("MatMul", [1], "merge/w"), op("MatMul", [2], "b/w")]
    theirs = [op("linear", [], "s.weight"), op("add", [0], "norm.bias"), op("linear", [1], "v.weight")]
    theirs.append(op("linear", [2], "u.weight"))
    reference = [Variable("a/w", (3, 5), use="MatMul"), Variable("norm/b", (7,), use="Add")]
    reference += [Variable("merge/w", (4, 4), use="MatMul"), Variable("b/w", (4, 4), use="MatMul")]
    candidate = [Variable("s.weight", (5, 3), use="Linear"), Variable("norm.bias", (7,))]
    candidate += [Variable("u.weight", (4, 4), use="Linear"), Variable("v.weight", (4, 4), use="Linear")]
    return draft_mapping(reference, candidate, {}), ours, theirs


def meant(draft):
    return {pair.reference: pair.candidate[0] for pair in draft.mapping().pairs}


def test_two_kernels_of_one_shape_are_told_apart_by_what_is_before_and_behind_them():
    draft, ours, theirs = stacks()
    assert meant(draft)["merge/w"] == "u.weight"  # by order
    found = meant(by_neighbours(draft, Known(), (ours, theirs)))
    assert (found["merge/w"], found["b/w"]) == ("v.weight", "u.weight")


@pytest.mark.parametrize(("first", "second"), [("Sigmoid", "Relu"), ("Relu", "Sigmoid")])
def test_two_branches_of_one_input_are_told_apart_by_their_activations(first, second):
    ours = [op("MatMul", [], "lin/w"), op("MatMul", [], "next/w"), op(first, [0]), op(second, [1]), op("Mul", [2, 3])]
    theirs = [op("linear", [], "one.weight"), op("linear", [], "two.weight"), op("relu", [0]), op("sigmoid", [1])]
    reference = [Variable("lin/w", (4, 4), use="MatMul"), Variable("next/w", (4, 4), use="MatMul")]
    candidate = [Variable("one.weight", (4, 4), use="Linear"), Variable("two.weight", (4, 4), use="Linear")]
    found = meant(by_neighbours(draft_mapping(reference, candidate, {}), Known(), (ours, theirs)))
    assert found["lin/w"] == ("one.weight" if first == "Relu" else "two.weight")


@pytest.mark.parametrize("pooled", [0, 1])
def test_two_branches_of_one_input_are_told_apart_by_what_is_pooled(pooled):
    ours = [op("MatMul", [], "f/w"), op("MatMul", [], "g/w"), op("MaxPool", [0]), op("Mul", [1, 2])]
    theirs = [op("linear", [], "one.weight"), op("linear", [], "two.weight"), op("max_pool2d", [pooled])]
    theirs.append(op("mul", [1 - pooled, 2]))
    reference = [Variable("f/w", (4, 4), use="MatMul"), Variable("g/w", (4, 4), use="MatMul")]
    candidate = [Variable("one.weight", (4, 4), use="Linear"), Variable("two.weight", (4, 4), use="Linear")]
    found = meant(by_neighbours(draft_mapping(reference, candidate, {}), Known(), (ours, theirs)))
    assert found["f/w"] == ("one.weight", "two.weight")[pooled]


def test_numbers_that_agree_outweigh_the_neighbours():
    draft, ours, theirs = stacks()
    numbers = Known(("merge/w", "u.weight"), ("b/w", "v.weight"), others=1.0)
    assert meant(by_neighbours(draft, numbers, (ours, theirs)))["merge/w"] == "u.weight"


def two_paths(matmul, add, first, second, third, fourth):
    """Two paths that read the same kernel's output and are joined in two sums, under given names."""
    return [
        op(matmul, [], "stem"),
        op(matmul, [0], first),
        op(matmul, [0], second),
        op(matmul, [1], third),
        op(add, [3, 2]),
        op(matmul, [2], fourth),
        op(add, [5, 1]),
        op(add, [4, 6]),
        op(matmul, [5], "last"),
    ]


@pytest.mark.parametrize("exchanged", [False, True])
def test_two_paths_that_read_the_same_are_told_apart_by_what_reads_them_further_on(exchanged):
    """Whatever each is first taken for: what one is taken for is no reason for the other."""
    ours = two_paths("MatMul", "AddV2", "a/w", "b/w", "c/w", "d/w")
    names = [f"{name}.weight" for name in ("one", "two", "three", "four")]
    order = [1, 0, 3, 2] if exchanged else [0, 1, 2, 3]
    theirs = two_paths("linear", "add", *(names[each] for each in order))
    reference = [Variable(name, (4, 4), use="MatMul") for name in ("stem", "a/w", "b/w", "c/w", "d/w")]
    reference += [Variable("last", (4, 7), use="MatMul")]
    candidate = [Variable("stem", (4, 4), use="Linear"), *(Variable(name, (4, 4), use="Linear") for name in names)]
    candidate += [Variable("last", (7, 4), use="Linear")]
    found = meant(by_neighbours(draft_mapping(reference, candidate, {}), Known(), (ours, theirs)))
    assert [found[name] for name in ("a/w", "b/w", "c/w", "d/w")] == [names[each] for each in order]


def test_what_neither_graph_reads_says_nothing():
    draft, _, _ = stacks()
    guess = draft.guesses[0]
    assert Neighbours(draft, [], [])(guess.variable, guess.unit) == 0.0
    assert Structure(draft, [], [])(guess.variable, guess.unit) == 0.0
