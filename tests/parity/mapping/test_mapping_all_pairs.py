"""What is found of all pairs of many variables at once is what is found of each pair by itself, and asked for once."""

import difflib
import itertools
import random

import numpy as np
import pytest

from parity.mapping import Values, Variable, draft_mapping, numbers_of, parse_transform, propose
from parity.mapping.fits import becomes
from parity.mapping.names import Meaning, meanings
from parity.mapping.pairwise.agreement import agreements
from parity.mapping.pairwise.assignment import FORBIDDEN, assign
from parity.mapping.pairwise.letters import likeness
from parity.mapping.similarity import Similarity
from parity.mapping.units import Unit

ROLES = ("", "weight", "bias")


def plain_likeness(one, other):
    if one.role and other.role and one.role != other.role:
        return 0.0
    letters = difflib.SequenceMatcher(None, " ".join(one.where), " ".join(other.where), autojunk=False).ratio()
    return 0.25 * (one.role == other.role) + 0.75 * letters


@pytest.mark.parametrize("words", [("ab", "ba c", "a1"), ("block", "conv", "blocks"), ("", "1", "23"), ("x",)])
@pytest.mark.parametrize("numbers", [0, 1, 3, 9])  # nine of three digits: more pairs of digits than an integer has bits
def test_names_are_as_alike_as_their_letters_in_common(words, numbers):
    draw = random.Random(f"{words} {numbers}")

    def name():
        found = [word for _ in range(numbers) for word in (draw.choice(words), str(draw.randrange(1000)))]
        return Meaning((*found, draw.choice(words)), draw.choice(ROLES))

    one, other = [name() for _ in range(12)], [name() for _ in range(9)]
    np.testing.assert_array_equal(likeness(one, other), [[plain_likeness(a, b) for b in other] for a in one])


def test_of_names_that_differ_by_a_number_each_pattern_is_compared_once(monkeypatch):
    count = itertools.count()

    class Counted(difflib.SequenceMatcher):
        def __init__(self, *texts, **options):
            next(count)
            super().__init__(*texts, **options)

    monkeypatch.setattr(difflib, "SequenceMatcher", Counted)
    one, other = (
        meanings([form.format(at) for at in range(200)]) for form in ("block_{}/conv/w", "layer.{}.fc.weight")
    )
    assert likeness(one, other).shape == (200, 200)
    # 1, 2 or 3 digits on either side, any of which may be equal: some hundred in place of 40,000.
    assert next(count) < 400


def test_names_of_the_same_words_are_equally_alike_to_the_bit_in_whatever_order_the_words_are_added():
    names = [f"{a}/{b}/{c}/kernel" for a, b, c in itertools.permutations(("alpha", "bravo", "delta"))]
    others = [f"{a}.{b}.{c}.{d}.weight" for a, b, c, d in itertools.permutations(("alpha", "bravo", "delta", "echo"))]
    found = Similarity([*names, "other/kernel", "alpha/kernel"], [*others, "fc.weight", "bravo.weight"])(names, others)
    assert found.min() == found.max() > 0.5
    assert (Similarity(names, names)(names, names) == 1.0).all()


def plain_agreement(wanted, held):
    wanted, held = (np.asarray(each, np.float64).ravel() for each in (wanted, held))
    if not np.ptp(wanted) and not np.ptp(held):
        return None
    distance = np.linalg.norm(wanted - held) / (np.linalg.norm(wanted) + np.linalg.norm(held))
    return 1.0 if distance <= 1e-3 else max(0.0, 1.0 - distance)


def test_numbers_of_all_pairs_agree_as_those_of_each_pair_do():
    draw = np.random.default_rng(0)
    base = draw.standard_normal((6, 4, 3)).astype(np.float32)
    wanted = dict(zip("abcdef", base, strict=True))
    wanted.update({"zero": np.zeros((4, 3)), "one": np.ones((4, 3)), "nan": np.full((4, 3), np.nan)})
    held = {name.upper(): value.T * np.float32(1 + 1e-6) for name, value in wanted.items()}
    held.update({"near": base[0].T + 0.01 * base[1].T, "far": -base[2].T, "other shape": base[0]})
    variables = [Variable(name, (4, 3)) for name in (*wanted, "unknown")]
    units = [Unit(name, (Variable(name, (3, 4)),)) for name in (*held, "missing")]
    found = agreements(variables, units, "transpose", wanted, held, linear=True)
    assert np.isnan(found[-1]).all() and np.isnan(found[:, -1]).all()
    for (row, one), (column, other) in itertools.product(enumerate(wanted.items()), enumerate(held.items())):
        if "shape" in other[0] or "nan" in (one[0], other[0].lower()):
            assert found[row, column] == 0.0
        else:
            plain = plain_agreement(one[1], other[1].T)
            assert (
                found[row, column] == pytest.approx(plain, abs=1e-10)
                if plain is not None
                else np.isnan(found[row, column])
            )
    assert (found[:6, :6] == 1.0).sum() == 6


def test_numbers_of_equal_variables_agree_equally_to_the_bit():
    draw = np.random.default_rng(0)
    value, held = draw.standard_normal(4097), {f"p{at}": draw.standard_normal(4097) for at in range(37)}
    variables = [Variable(f"v{at}", (4097,)) for at in range(51)]
    units = [Unit(name, (Variable(name, (4097,)),)) for name in held]
    found = agreements(
        variables, units, "identity", dict.fromkeys((v.name for v in variables), value), held, linear=False
    )
    assert (found == found[0]).all() and 0.0 < found.max() < 0.5


@pytest.mark.parametrize("seed", range(10))
def test_of_what_agrees_equally_the_first_is_proposed_whichever_form_it_has(seed):
    value, other = np.random.default_rng(seed).standard_normal((2, 37, 37))
    other += other.T  # |value - other| is |value.T - other|, but for the order in which its squares are added
    reference = Values([Variable("fc/kernel", value.shape)], {"fc/kernel": value}, {})
    candidate = Values([Variable("fc.weight", value.shape)], {"fc.weight": other}, {})
    of = reference.variables, [Unit("fc.weight", tuple(candidate.variables))]
    found = [
        agreements(*of, form, reference.initial, candidate.initial, linear=False) for form in ("identity", "transpose")
    ]
    assert found[0] == found[1] > 0.0
    assert propose(reference, candidate)[0].transform == "identity"


def test_of_a_sum_the_whole_value_counts_and_of_its_gradient_each_part_that_is_known():
    draw = np.random.default_rng(0)
    value, gradient = draw.standard_normal((2, 8))
    parts = tuple(Variable(f"cell.bias_{end}", (8,)) for end in ("ih", "hh"))
    unit = Unit("cell.bias", parts, ("sum",))
    got = {parts[0].name: 0.25 * value, parts[1].name: 0.75 * value}
    of = [Variable("bias", (8,))], [unit], "sum"
    assert agreements(*of, {"bias": value}, got, linear=False).tolist() == [[1.0]]
    assert agreements(*of, {"bias": gradient}, {parts[1].name: gradient}, linear=True).tolist() == [[1.0]]
    assert agreements(*of, {"bias": gradient}, {each.name: gradient for each in parts}, linear=True).tolist() == [[1.0]]


def test_the_whole_value_of_a_sum_counts_in_the_shape_that_the_reference_has():
    value = np.random.default_rng(0).standard_normal(8)
    parts = tuple(Variable(f"cell.bias_{end}", (8,), use="LSTM") for end in ("ih", "hh"))
    unit, text = Unit("cell.bias", parts, ("sum",)), "reshape(8) | sum"
    of = [Variable("flat/bias", (1, 8)), Variable("bias", (2, 4))], [unit], text
    wanted = {"flat/bias": value.reshape(1, 8), "bias": value.reshape(2, 4)}
    got = {parts[0].name: 0.25 * value, parts[1].name: 0.75 * value}
    assert agreements(*of, wanted, got, linear=False).tolist() == [[1.0], [1.0]]


def test_the_numbers_of_two_sides_say_of_all_pairs_what_they_say_of_each():
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((3, 5, 2))
    one = {f"{name}/kernel": value.T for name, value in zip("qkv", rows, strict=True)}
    variables = [Variable(name, (2, 5)) for name in one]
    whole = Variable("attention.in_proj_weight", (15, 2), use="MultiheadAttention")
    units = [Unit(f"attention.{name}.weight", (whole,), ("rows",), (at, 3)) for at, name in enumerate("qkv")]
    numbers = numbers_of(Values(variables, one, {}), Values([whole], {whole.name: rows.reshape(15, 2)}, {}))
    for at in range(3):
        text = f"transpose | rows({at}, 3)"
        found = numbers.of_all(variables, [units[at]], text)
        assert found[:, 0].tolist() == pytest.approx([numbers(variable, units[at], text) for variable in variables])
        assert (found[:, 0] == 0.0).tolist() == [place == at for place in range(3)]


def test_what_groups_of_rows_and_columns_can_get_does_not_depend_on_the_other_groups():
    draw = np.random.default_rng(0)
    for _ in range(100):
        sizes = draw.integers(1, 6, (3, 2))
        costs = np.full(sizes.sum(0), FORBIDDEN)
        apart, row, column = [], 0, 0
        for rows, columns in sizes:
            block = draw.integers(0, 4, (rows, columns)).astype(float)  # with many ties
            costs[row : row + rows, column : column + columns] = block
            apart += [None if place is None else column + place for place in assign(block)]
            row, column = row + rows, column + columns
        assert assign(costs) == apart


def test_variables_of_one_form_share_what_they_may_become_and_it_is_found_once(monkeypatch):
    asked = []
    transforms = Unit.transforms
    monkeypatch.setattr(Unit, "transforms", lambda unit, *rest: asked.append(unit) or transforms(unit, *rest))
    reference = [Variable(f"Variable_{at}", (4, 6 + at % 2), use="MatMul") for at in range(60)]
    candidate = [Variable(f"p.{7 * at}", (6 + at % 2, 4), use="Linear") for at in range(60)]
    guesses = draft_mapping(reference, candidate, {}).guesses
    assert [guess.unit.label for guess in guesses] == [variable.name for variable in candidate]
    assert len({id(guess.options) for guess in guesses}) == 2 and len(guesses[0].options) == 30
    assert len(asked) == 60  # not 1,800: one unit of a form stands for all of them


def plain_pairs(reference, candidate):
    """All that may be meant, and how much speaks for it."""
    meaning = [
        dict(zip(names, meanings(names), strict=True))
        for names in ([variable.name for variable in side.variables] for side in (reference, candidate))
    ]
    for variable, part in itertools.product(reference.variables, candidate.variables):
        for text in (text for text in ("identity", "transpose") if becomes(text, variable, part)):
            scores = [(1.0, plain_likeness(meaning[0][variable.name], meaning[1][part.name]))]
            for one, other in ((reference.initial, candidate.initial), (reference.gradient, candidate.gradient)):
                if variable.name in one and part.name in other:
                    (made,) = parse_transform(text).forward(one[variable.name])
                    scores.append((3.0, plain_agreement(made, other[part.name])))
            known = [(weight, score) for weight, score in scores if score is not None]
            total = sum(weight * score for weight, score in known) / sum(weight for weight, _ in known)
            # Both layouts of a symmetric value agree equally, but for the order in which a processor adds up.
            yield variable.name, part.name, text, round(total, 12)


def plain_proposals(reference, candidate):
    """What is proposed where every pair is looked at by itself, the best of all that are left first."""
    pairs, found = [*plain_pairs(reference, candidate)], {}
    for own in sorted(pairs, key=lambda pair: -pair[3]):
        if own[0] not in found and own[1] not in {names[0] for names, *_ in found.values()}:
            rivals = [pair[3] for pair in pairs if pair is not own and (pair[0] == own[0] or pair[1] == own[1])]
            lead = min(1.0, (own[3] - max(rivals)) / 0.25) if rivals else 1.0
            found[own[0]] = (own[1],), own[2], pytest.approx(max(0.0, lead) * own[3])
    return found


@pytest.mark.parametrize("seed", range(8))
def test_proposals_are_those_of_looking_at_every_pair_by_itself(seed):
    draw = np.random.default_rng(seed)
    shapes = [[(4,), (3, 3), (3, 2)][at] for at in draw.integers(0, 3, 25)]
    names = [(f"block_{at}/{'ab'[at % 2]}/kernel", f"layer.{at // 2}.{'ab'[at % 2]}") for at in range(25)]
    known = [({}, {}), ({}, {})]
    for ((one, other), shape), which in itertools.product(zip(names, shapes, strict=True), range(2)):
        value = draw.standard_normal(shape) if draw.random() < 0.8 else np.ones(shape)
        if draw.random() < 0.9:
            known[0][which][one] = value
        if draw.random() < 0.9:
            known[1][which][other] = (value + draw.choice([0.0, 0.3]) * draw.standard_normal(shape)).T
    reference = Values([Variable(one, shape) for (one, _), shape in zip(names, shapes, strict=True)], *known[0])
    candidate = Values(
        [Variable(other, shape[::-1]) for (_, other), shape in zip(names, shapes, strict=True)], *known[1]
    )
    found = propose(reference, candidate)
    assert [each.reference for each in found] == [one for one, _ in names]
    assert plain_proposals(reference, candidate) == {
        each.reference: (each.candidate, each.transform, each.confidence) for each in found
    }
