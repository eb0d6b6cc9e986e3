"""A decay is a law of the weights, which holds in every tower and step: by amounts, norms, sizes, or rows."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at

from parity.diagnose.detectors.weight_decay import weight_decay

SHAPES = {"kernel": (6, 5), "bias": (5,), "table": (9, 4)}
KEY = "tower_grad/0/kernel"


def says(folder, law, key=KEY, noise=0.0, shapes=SHAPES, sums=None, least=0.0):
    """Title and evidence of what differs by a law of the weights, in two towers of two steps; None where there is none.

    `noise` is off what the law adds elsewhere than where the first difference is, relative; `least` is what differs more.
    """
    random, states, one, other = np.random.default_rng(13), [], [], []
    for _ in range(2):
        weights = {name: random.standard_normal(shape) for name, shape in shapes.items()}
        states.append({f"var/{name}": value for name, value in weights.items()})
        steps = {}, {}
        for tower in (0, 1):
            added = {name: np.zeros(shape) for name, shape in shapes.items()}
            added |= {name: rule(weights[name]) for name, rule in law.items()}
            size = np.sqrt(sum((value**2).sum() for value in added.values()))
            for name, shape in shapes.items():
                gradient = random.standard_normal(shape)
                off = random.standard_normal(shape)
                elsewhere = bool(one) or tower == 1
                steps[0][f"tower_grad/{tower}/{name}"] = gradient
                off *= (noise * elsewhere if name in law else least) * size / np.linalg.norm(off)
                steps[1][f"tower_grad/{tower}/{name}"] = gradient + added[name] + off
        for sides, step in zip((one, other), steps, strict=True):
            sides.append(step)
    kinds = dict.fromkeys(shapes, "weight")
    cause = weight_decay(first_at(key), evidence_between(folder, one, other, states, kinds, sums=sums))
    return cause and f"{cause.title}: {cause.evidence}"


def by(amount):
    return lambda w: amount * w


def by_norm(amount, less=0.0):
    return lambda w: (amount / np.linalg.norm(w) - less) * w


def by_size(amount, less=0.0):
    return lambda w: amount * np.sign(w) - less * w


def by_rows(*multiples):
    return lambda w: 1e-2 * np.resize(multiples, len(w))[:, None] * w


@pytest.mark.parametrize(
    ("law", "title", "evidence"),
    [
        (
            dict.fromkeys(SHAPES, by(0.01)),
            "weight decay of 0.01 in the candidate that the reference does not have",
            "the gradient of every variable is off by 0.01 times the weight, and nothing else",
        ),
        (
            {"kernel": by(-0.01), "bias": by(-0.01)},
            "weight decay of 0.01 in the reference that the candidate does not have",
            "the gradient of bias, kernel is off by -0.01 times the weight, and nothing else",
        ),
        (
            {"kernel": by(0.01), "bias": by(0.02), "table": by(0.01)},
            "weight decay off by 0.01 for table, kernel; 0.02 for bias",
            "the gradient is off by 0.01 for table, kernel; 0.02 for bias times the weight, and nothing else",
        ),
        ({"kernel": by(0.01), "bias": by(0.02)}, "weight decay off by 0.02 for bias; 0.01 for kernel", "nothing else"),
        (
            dict.fromkeys(SHAPES, by_norm(0.01, 0.003)),
            "the penalty takes the norms of the weights where the reference takes half their squares",
            ": 0.01 over the norm of the variable less 0.003",
        ),
        (
            dict.fromkeys(SHAPES, by_size(0.01, 0.003)),
            "the penalty takes the sizes of the weights where the reference takes none or their squares",
            "off by 0.01 for table, bias, kernel times the sign of the weight, and by -0.003 for table, bias, kernel times",
        ),
        (
            dict.fromkeys(SHAPES, by_size(-0.01)),
            "the penalty takes the squares of the weights, or none, where the reference takes their sizes",
            "off by -0.01 for table, bias, kernel times the sign of the weight, and by 0 for table, bias, kernel times",
        ),
        (
            {"kernel": by_rows(0, 1, 2, 3), "table": by_rows(0, 1, 3, 5)},
            "the rows of table, kernel decay otherwise, each by an amount of its own",
            "row of the weight, 0 to 0.05 in table, 0 to 0.03 in kernel, all of them whole multiples of one coefficient",
        ),
    ],
)
def test_the_law_by_which_weights_decay_is_named(tmp_path, law, title, evidence):
    text = says(tmp_path, law)
    assert text.startswith(f"{title}: ")
    assert evidence in text


@pytest.mark.parametrize(
    "law",
    [
        dict.fromkeys(SHAPES, by(0.01)),
        {"kernel": by(0.01), "bias": by(0.02), "table": by(0.01)},
        dict.fromkeys(SHAPES, by_norm(0.01, 0.003)),
        dict.fromkeys(SHAPES, by_size(0.01)),
    ],
)
@pytest.mark.parametrize(("noise", "is_named"), [(0.5e-4, True), (1.2e-4, False)])
def test_a_law_holds_elsewhere_to_a_ten_thousandth_of_what_differs(tmp_path, law, noise, is_named):
    assert (says(tmp_path, law, noise=noise) is not None) == is_named


@pytest.mark.parametrize(("least", "is_named"), [(0.5e-6, True), (1e-4, False)])
def test_what_is_a_millionth_of_what_differs_is_rounding(tmp_path, least, is_named):
    """The bias and the table are off by noise: beside it the decay of the kernel is not all that differs."""
    assert (says(tmp_path, {"kernel": by(0.01)}, least=least) is not None) == is_named


def test_norms_in_place_of_squares_are_told_of_three_variables_and_only_in_the_candidate(tmp_path):
    two = {"kernel": by_norm(0.01, 0.003), "bias": by_norm(0.01, 0.003)}
    assert says(tmp_path / "two", two) is None  # as amounts they change from step to step
    reference = dict.fromkeys(SHAPES, by_norm(-0.01, -0.003))
    assert says(tmp_path / "reference", reference) is None


def test_of_three_elements_nothing_tells_an_amount_of_their_own(tmp_path):
    law = {"kernel": by(0.01), "bias": by(0.02)}
    for count, is_named in ((4, True), (3, False)):
        text = says(tmp_path / str(count), law, shapes={"kernel": (6, 5), "bias": (count,)})
        assert (text is not None) == is_named


@pytest.mark.parametrize(
    ("multiples", "is_named"),
    [
        ((0, 1, 2, 3), True),
        ((0, 2, 5, 7), True),  # two lookups are the smallest step
        ((0, 3, 7, 10), True),
        ((0, 4, 9, 13), False),
        ((0, 1, 2, 3.0009), True),
        ((0, 1, 2, 3.0012), False),
        ((0, 1, 2, 2.5), True),
        ((0.5, 1.5, 2.5, 4.5), True),
        ((0.0, 1.0, 2.2, 3.7), False),
    ],
)
def test_rows_decay_by_whole_multiples_of_one_coefficient(tmp_path, multiples, is_named):
    text = says(tmp_path, {"table": by_rows(*multiples)}, shapes={"table": (4, 5)}, key="tower_grad/0/table")
    assert (text is not None) == is_named


@pytest.mark.parametrize(("shape", "is_named"), [((4, 4), True), ((4, 3), False), ((4, 4, 4), False), ((4,), False)])
def test_rows_that_decay_are_those_of_a_table_of_four_columns(tmp_path, shape, is_named):
    multiples = np.arange(float(shape[0])).reshape(-1, *[1] * (len(shape) - 1))
    text = says(tmp_path, {"w": lambda w: 1e-2 * multiples * w}, shapes={"w": shape}, key="tower_grad/0/w")
    assert (text is not None) == is_named


@pytest.mark.parametrize(("off", "is_named"), [(0.9e-5, True), (1.2e-5, False)])
def test_rows_leave_a_hundred_thousandth_of_what_differs(tmp_path, off, is_named):
    def law(w):
        added = by_rows(0, 1, 2, 3)(w)
        noise = np.random.default_rng(1).standard_normal(w.shape)
        noise -= (noise * w).sum(1, keepdims=True) / (w * w).sum(1, keepdims=True) * w
        return added + off * np.linalg.norm(added) / np.linalg.norm(noise) * noise

    text = says(tmp_path, {"table": law}, shapes={"table": (4, 5)}, key="tower_grad/0/table")
    assert (text is not None) == is_named


def test_a_parameter_that_is_one_of_several_terms_need_not_decay(tmp_path):
    """The port splits the bias in two, of which one alone decays: the sum is off by no multiple of itself."""
    steps = []
    random = np.random.default_rng(14)
    weights = {name: random.standard_normal(shape) for name, shape in SHAPES.items()}
    reference = {f"grad/{name}": random.standard_normal(shape) for name, shape in SHAPES.items()}
    for of_bias in (np.zeros(5), 0.01 * random.standard_normal(5)):
        candidate = {f"grad/{name}": reference[f"grad/{name}"] + 0.01 * weights[name] for name in ("kernel", "table")}
        candidate |= dict.fromkeys(("grad/one", "grad/two"), reference["grad/bias"] + of_bias)
        before = {f"var/{name}": value for name, value in weights.items()}
        kinds = dict.fromkeys(SHAPES, "weight")
        folder = tmp_path / str(len(steps))
        evidence = evidence_between(folder, reference, candidate, before, kinds, sums={"bias": ("one", "two")})
        steps.append(weight_decay(first_at("grad/kernel"), evidence))
    for cause in steps:
        assert "the gradient of table, kernel is off by 0.01 times the weight" in cause.evidence
