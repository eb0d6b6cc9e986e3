"""The numbers of a formula are solved for from what moved: each form by its definition, on arrays."""

import numpy as np
import pytest

from parity.diagnose.detectors.updates.solver import GRADIENT, Form, Formula, Move, forms, holds, solve

RANDOM = np.random.default_rng(20)
SIZES = (12, 30)


def terms_of(size):
    """A gradient, an average of either sign, and squares that are larger than its square."""
    average = RANDOM.normal(size=size)
    return {GRADIENT: RANDOM.normal(size=size), "m": average, "v": average**2 + RANDOM.uniform(0.5, 2.0, size=size)}


TERMS, WEIGHTS = [terms_of(size) for size in SIZES], [RANDOM.normal(size=size) for size in SIZES]


def below(form, terms, epsilon):
    if not form.root:
        return 1.0
    square = terms[form.root[0]] - (terms[form.root[1]] ** 2 if len(form.root) == 2 else 0.0)
    if form.plain:
        return abs(terms[form.root[0]]) + epsilon
    return (square + epsilon) ** 0.5 if form.inside else square**0.5 + epsilon


def moves_by(form, shares=(0.3, -0.2), epsilon=0.0, decay=0.0):
    """How two variables move by a formula."""
    found = []
    for terms, weight in zip(TERMS, WEIGHTS, strict=True):
        above = sum(share * terms[name] for share, name in zip(shares, form.numerators, strict=False))
        found.append(Move(weight, above / below(form, terms, epsilon) + decay * weight, terms, {}))
    return found


EVERY = list(forms(["m", "v"]))
# The average has either sign: it is no square. As a size that is one already it may stand below.
RIGHT = [form for form in EVERY if form.root[:1] != ("m",) or form.plain]


def test_forms_are_all_that_slots_and_the_gradient_can_make_of_an_update():
    words = [form.words() for form in EVERY]
    assert words[:5] == ["m", "v", "gradient", "m + gradient", "v + gradient"]
    assert sorted(words[5:]) == sorted(
        text
        for root, above in (("m", "v"), ("v", "m"))
        for text in (
            f"{above} / (sqrt({root}) + epsilon)",
            f"gradient / (sqrt({root}) + epsilon)",
            f"{above} / sqrt({root} + epsilon)",
            f"gradient / sqrt({root} + epsilon)",
            f"{above} + gradient / (sqrt({root}) + epsilon)",
            f"{above} / ({root} + epsilon)",
            f"gradient / (sqrt({root} - {above}^2) + epsilon)",
            f"gradient / sqrt({root} - {above}^2 + epsilon)",
        )
    )


@pytest.mark.parametrize("form", RIGHT, ids=Form.words)
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_shares_and_decay_are_solved_for_beside_a_known_epsilon(form, decay):
    epsilon = 0.05 if form.root else 0.0
    moves = moves_by(form, epsilon=epsilon, decay=decay)
    found = solve(form, moves, epsilon, decays=bool(decay))
    np.testing.assert_allclose(found.shares, (0.3, -0.2)[: len(form.numerators)], rtol=1e-9)
    assert found.epsilon == epsilon and found.decay == pytest.approx(decay, rel=1e-9)
    assert holds(found, moves)
    for move in moves:
        np.testing.assert_allclose(found.of(move), move.move, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("form", [form for form in RIGHT if form.root], ids=Form.words)
@pytest.mark.parametrize("epsilon", [0.05, 0.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_epsilon_that_is_not_known_is_solved_for_too(form, epsilon, sign):
    moves = moves_by(form, (0.3 * sign, -0.2), epsilon)
    found = solve(form, moves)
    np.testing.assert_allclose(found.shares, (0.3 * sign, -0.2)[: len(form.numerators)], rtol=1e-8)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-8) and found.decay == 0.0
    assert holds(found, moves)
    assert solve(form, moves, decays=True) is None  # a decay beside it would be one unknown more


def test_what_is_no_square_or_not_there_has_no_formula():
    moves = moves_by(Form(("m",)))
    assert solve(Form((GRADIENT,), ("m",)), moves, 0.1) is None
    assert solve(Form(("n",)), moves) is None and solve(Form((GRADIENT,), ("n",)), moves, 0.1) is None
    assert solve(Form(("m",)), []) is None
    with_zeros = [
        move._replace(terms=move.terms | {"v": move.terms["v"] * (np.arange(move.move.size) > 0)}) for move in moves
    ]
    assert solve(Form((GRADIENT,), ("v",)), with_zeros, 0.1) is not None  # a root of 0 is one


@pytest.mark.parametrize(("over", "is_told"), [(0.9e4, True), (1.2e4, False)])
@pytest.mark.parametrize("inside", [False, True])
def test_an_epsilon_beside_which_the_root_counts_for_nothing_is_not_told(over, is_told, inside):
    form = Form((GRADIENT,), ("v",), inside)
    largest = max(terms["v"].max() for terms in TERMS)
    epsilon = over * (largest if inside else largest**0.5)
    assert (solve(form, moves_by(form, epsilon=epsilon)) is not None) == is_told


@pytest.mark.parametrize(("off", "is_held"), [(0.9e-6, True), (1.2e-6, False)])
def test_a_formula_leaves_a_millionth_of_each_move(off, is_held):
    form = Form(("m",))
    moves = moves_by(form)
    noise = RANDOM.normal(size=SIZES[1])
    noise *= off * np.linalg.norm(moves[1].move) / np.linalg.norm(noise)
    assert holds(Formula(form, (0.3,)), [moves[0], moves[1]._replace(move=moves[1].move + noise)]) == is_held


@pytest.mark.parametrize(("off", "is_held"), [(0.9e-14, True), (1.2e-14, False)])
def test_storing_a_weight_rounds_its_move(off, is_held):
    form = Form(("m",))
    moves = [move._replace(weight=1e9 * move.weight / np.linalg.norm(move.weight)) for move in moves_by(form, (1e-9,))]
    noise = RANDOM.normal(size=SIZES[0])
    noisy = moves[0]._replace(move=moves[0].move + off * 1e9 * noise / np.linalg.norm(noise))
    assert holds(Formula(form, (1e-9,)), [noisy, moves[1]]) == is_held


@pytest.mark.parametrize(("off", "is_held"), [(0.9e-3, True), (1.2e-3, False)])
def test_a_formula_leaves_a_thousandth_of_what_the_sides_differ_by(off, is_held):
    """To be near the move is not enough: where the sides differ little, everything is near to both."""
    form = Form(("m",))
    moves = moves_by(form)
    others = [move._replace(move=move.move * (1 - 1e-5)) for move in moves]
    apart = np.sqrt(sum(np.linalg.norm(m.move - o.move) ** 2 for m, o in zip(moves, others, strict=True)))
    noise = RANDOM.normal(size=SIZES[0])
    noisy = [moves[0]._replace(move=moves[0].move + off * apart * noise / np.linalg.norm(noise)), moves[1]]
    assert holds(Formula(form, (0.3,)), noisy, others) == is_held
    assert holds(Formula(form, (0.3,)), noisy)


@pytest.mark.parametrize("formula", [None, *(Formula(Form(("m",)), (0.3,))._replace(**{name: value}) for name, value in (
    ("shares", (np.nan,)), ("shares", (np.inf,)), ("decay", np.nan), ("epsilon", np.inf)))])  # fmt: skip
def test_a_formula_without_numbers_holds_nowhere(formula):
    assert not holds(formula, moves_by(Form(("m",))))


def test_a_place_without_a_gradient_moves_by_nothing_whatever_is_below_it():
    form = Form((GRADIENT,), ("v",))
    terms = {GRADIENT: np.array([0.0, 1.0, 2.0, 3.0]), "v": np.array([0.0, 1.0, 4.0, 4.0])}
    moves = [Move(np.ones(4), np.array([0.0, 0.5, 0.5, 0.75]), terms, {})]
    found = solve(form, moves, 0.0)
    assert found.shares == pytest.approx((0.5,)) and holds(found, moves)
    np.testing.assert_allclose(found.of(moves[0]), moves[0].move)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (Formula(Form(("m",)), (0.3,)), "0.3 m"),
        (Formula(Form(("m",)), (0.3,), decay=0.01), "0.3 m + 0.01 weight"),
        (Formula(Form(("m", GRADIENT)), (0.3, 0.1)), "0.3 m + 0.1 gradient"),
        (Formula(Form(("m",), ("v",)), (0.3,), 0.05), "0.3 m / (sqrt(v) + 0.05)"),
        (Formula(Form(("m", GRADIENT), ("v",)), (0.3, 0.1), 0.05), "(0.3 m + 0.1 gradient) / (sqrt(v) + 0.05)"),
        (Formula(Form((GRADIENT,), ("v", "m"), True), (0.3,), 0.05), "0.3 gradient / sqrt(v - m^2 + 0.05)"),
        (Formula(Form(("m",), ("v",), plain=True), (0.3,), 0.05), "0.3 m / (v + 0.05)"),
    ],
)
def test_a_formula_is_said_with_its_numbers(formula, words):
    assert formula.words() == words
