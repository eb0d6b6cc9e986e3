"""What stands between a layer and its output is named by the numbers: just inside and just outside of what each says."""

from types import SimpleNamespace

import numpy as np
import pytest

from parity.diagnose.detectors.layers import (
    border,
    dropout_active,
    dropout_before_pooling,
    pooling,
    response_normalisation,
    rows_without_gradient,
)
from parity.judge import Check, FirstDifference

RANDOM = np.random.default_rng(4)


def named(detector, one, other, key="act/0/layer"):
    """Title and evidence of what a detector says of one tensor; None where it says nothing."""
    quantity, tower, name = key.split("/")
    evidence = SimpleNamespace(pairs=lambda *_: [("another", other, one), (name, one, other)])
    check = Check("lockstep", 0, key, "different", 1.0, 1e-15)
    cause = detector(FirstDifference(check, quantity, name, tower, None), evidence)
    return cause and f"{cause.title}: {cause.evidence}"


LARGEST = RANDOM.uniform(1.0, 2.0, size=(1, 10, 10, 1))


def averaged(ratios):
    """The means of windows, of which the first are so many times the largest value, and others half of it."""
    made = np.full(100, 0.5)
    made[: len(ratios)] = ratios
    return LARGEST * made.reshape(LARGEST.shape)


@pytest.mark.parametrize(
    ("ratios", "window"),
    [
        ([0.25], 4),
        ([0.25 * (1 - 0.9e-6)], 4),
        ([0.25 * (1 - 1.1e-6)], None),
        ([0.2999], 4),
        ([0.3001], None),
        ([1 / 9], 9),
        ([0.1332], 9),
        ([0.1334], None),
        ([1 / 9 * (1 - 1.1e-6)], None),
        ([0.25, 1.0 + 0.9e-6], 4),
        ([0.25, 1.0 + 1.1e-6], None),
        ([0.25, *[1.0] * 90], 4),
        ([0.25, *[1.0] * 91], None),
        ([0.25, *[0.9991] * 91], None),
        ([0.25, *[0.9989] * 91], 4),
    ],
)
def test_means_of_windows_are_told_by_their_share_of_the_largest(ratios, window):
    other = averaged(ratios)
    says = named(pooling, LARGEST, other)
    assert (says is None) == (window is None)
    if window:
        assert says.startswith("the candidate averages where the reference takes the largest of each window")
        assert f"at least 1/{window} of it, as the mean of {window} values" in says
        assert named(pooling, other, LARGEST).startswith("the reference averages where the candidate takes")


def test_means_of_windows_are_of_images_that_are_zero_alike_and_never_negative():
    other = averaged([0.25])
    assert named(pooling, LARGEST[0], other[0]) is None
    assert named(pooling, LARGEST, other, "stat/0/layer") is None
    for place, value in ((0, -1.0), (0, 0.0), (5, 0.0)):
        changed = other.copy()
        changed.flat[place] = value
        assert named(pooling, LARGEST, changed) is None
        assert named(pooling, changed, LARGEST) is None
    both = LARGEST.copy(), other.copy()
    for each in both:
        each.flat[7] = 0.0
    assert "each of the 99 non-zero values" in named(pooling, *both)
    for each in both:
        each.flat[7] = -0.5
    assert named(pooling, *both) is None


def masked(x, factor, dropped):
    """What dropout makes of values: zeros in some places, and the others scaled."""
    made = factor * x
    made.flat[dropped] = 0.0
    return made


@pytest.mark.parametrize(
    ("shape", "factor", "dropped", "is_named"),
    [
        ((2, 2), 2.0, [0, 3], True),
        ((2, 2), 4.0, [0, 1, 3], False),  # one value is kept
        ((2, 2), 4 / 3, [0], False),  # one value is dropped
        ((2, 1000), 1.0011, [0, 1000], True),
        ((2, 1000), 1.0009, [0, 1000], False),
        ((10, 10), 2.0, range(0, 100, 10), False),  # a tenth is dropped and not a half
        ((10, 10), 10 / 9, range(0, 100, 11), True),
        ((10, 10), 0.5, range(0, 100, 2), False),
    ],
)
def test_dropout_scales_what_it_keeps_by_one_over_its_share(shape, factor, dropped, is_named):
    x = RANDOM.uniform(1.0, 2.0, size=shape)
    other = masked(x, factor, list(dropped))
    says = named(dropout_active, x, other)
    assert (says is not None) == is_named
    if is_named:
        count = len(list(dropped))
        assert says.startswith(f"dropout is active in the candidate only, keeping {1 / factor:.3g}")
        assert f"of {x.size} non-zero values of layer, {count} are zero in the candidate" in says
        assert f"{factor:.6g} times the other side's" in says
        assert named(dropout_active, other, x).startswith("dropout is active in the reference only")


def test_what_is_not_scaled_by_one_factor_is_no_dropout():
    x = RANDOM.uniform(1.0, 2.0, size=(10, 10))
    other = masked(x, 2.0, range(0, 100, 2))
    assert named(dropout_active, x, other, "grad/0/layer") is None
    other.flat[1] *= 1.1
    assert named(dropout_active, x, other) is None
    x.flat[:4], other.flat[:4] = 0.0, 0.0
    assert "of 96 non-zero values of layer, 48 are zero" in named(dropout_active, x, other)


def pooled(count, factor, kept, *ratios):
    """Values behind a pooling: so many scaled up, some by other ratios, the rest as without dropout."""
    made = np.ones(count)
    made[:kept] = factor
    made[kept : kept + len(ratios)] = ratios
    return np.linspace(1.0, 2.0, count), made * np.linspace(1.0, 2.0, count)


@pytest.mark.parametrize(
    ("of", "is_named"),
    [
        ((100, 2.0, 50), True),
        ((50, 2.0, 25), True),
        ((49, 2.0, 25), False),
        ((100, 4.0, 25), True),
        ((100, 4.0, 24), False),
        ((100, 4.0, 24, 4.0 * (1 - 1.9e-3)), True),
        ((100, 4.0, 24, 4.0 * (1 - 2.1e-3)), False),
        ((100, 1.02, 98), True),
        ((100, 1.02, 99), False),
        ((100, 1.0101 / 0.98, 98, 1.0, 1.02), True),
        ((200, 1.0101, 196), False),  # all that is not kept is within a hundredth
        ((200, 1.0101, 196, 0.9, 0.9, 0.9, 0.9), True),
        ((200, 1.0099, 196, 0.9, 0.9, 0.9, 0.9), False),
        ((100, 2.0, 98, 1.97, 1.97), False),
        ((200, 2.0, 139), True),  # four deviations of a hundred draws are a fifth
        ((200, 2.0, 142), False),
    ],
)
def test_dropout_before_a_pooling_scales_the_largest_and_lessens_the_rest(of, is_named):
    one, other = pooled(*of)
    says = named(dropout_before_pooling, one, other)
    assert (says is not None) == is_named
    if is_named:
        assert says.startswith(f"dropout is active in the candidate only, keeping {1 / of[1]:.3g}, before a pooling")
        assert f"of the {of[0]} non-zero values of layer are {of[1]:.6g} times the other side's" in says
        assert "dropout is active in the reference only" in named(dropout_before_pooling, other, one)


@pytest.mark.parametrize(("one", "other"), [(-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (0.0, 1.0)])
def test_dropout_before_a_pooling_leaves_zeros_and_makes_nothing_negative(one, other):
    pair = pooled(100, 2.0, 50)
    assert named(dropout_before_pooling, *pair, "grad/0/layer") is None
    pair[0][-1], pair[1][-1] = one, other
    assert named(dropout_before_pooling, *pair) is None
    pair[0][-1], pair[1][-1] = 0.0, 0.0
    assert "of the 99 non-zero values" in named(dropout_before_pooling, *pair)


CHANNELS = RANDOM.uniform(0.5, 1.5, size=(2, 4, 4, 6))


def around(x, radius):
    """The sums of squares over the channels around each one."""
    return np.stack(
        [(x[..., max(0, at - radius) : at + radius + 1] ** 2).sum(-1) for at in range(x.shape[-1])], axis=-1
    )


@pytest.mark.parametrize("radius", range(6))
def test_another_strength_of_a_response_normalisation_is_told_with_its_window(radius):
    other = CHANNELS * np.exp(-0.003 * around(CHANNELS, radius))
    says = named(response_normalisation, CHANNELS, other)
    assert "alpha times beta is off by 0.003: " in says
    assert f"squares over {2 * radius + 1} channels, to " in says


def test_another_window_of_a_response_normalisation_is_told():
    other = CHANNELS * np.exp(0.003 * (around(CHANNELS, 2) - around(CHANNELS, 1)))
    says = named(response_normalisation, CHANNELS, other)
    assert "it goes over 3 channels where the reference goes over 5" in says
    assert "squares over 5 and 3 channels, to " in says
    other = CHANNELS * np.exp(0.003 * (around(CHANNELS, 2) + around(CHANNELS, 1)))
    assert named(response_normalisation, CHANNELS, other) is None


@pytest.mark.parametrize(("left", "is_named"), [(1.9e-2, True), (2.1e-2, False)])
@pytest.mark.parametrize("windows", [[1], [2, 1]])
def test_a_response_normalisation_leaves_a_fiftieth_of_the_logarithm(left, is_named, windows):
    sums = np.stack([around(CHANNELS, radius).reshape(-1) for radius in windows], axis=1)
    line = 0.003 * sums @ np.array([1.0, -1.0])[: len(windows)]
    noise = RANDOM.normal(size=line.shape)
    noise -= sums @ np.linalg.lstsq(sums, noise, rcond=None)[0]
    noise *= left * np.linalg.norm(line) / np.linalg.norm(noise) / np.sqrt(1 - left**2)
    other = CHANNELS * np.exp(line + noise).reshape(CHANNELS.shape)
    assert (named(response_normalisation, CHANNELS, other) is not None) == is_named


def test_a_response_normalisation_is_of_images_and_keeps_zeros_and_signs():
    other = CHANNELS * np.exp(-0.003 * around(CHANNELS, 1))
    assert named(response_normalisation, CHANNELS[0], other[0]) is None
    assert named(response_normalisation, CHANNELS, other, "grad/0/layer") is None
    for values, is_named in (((0.0, 0.0), True), ((-0.1, -0.1), False), ((0.0, 0.1), False), ((0.1, 0.0), False)):
        one = CHANNELS.copy()
        one.flat[3] = 0.0
        two = one * np.exp(-0.003 * around(one, 1))
        one.flat[3], two.flat[3] = values
        assert (named(response_normalisation, one, two) is not None) == is_named
    few = RANDOM.uniform(0.5, 1.5, size=(1, 1, 25, 2))
    assert named(response_normalisation, few, few * np.exp(-0.003 * around(few, 1))) is not None
    few.flat[0] = 0.0
    assert named(response_normalisation, few, few * np.exp(-0.003 * around(few, 1))) is None


IMAGES = RANDOM.uniform(1.0, 2.0, size=(2, 12, 12, 2))


def framed(shape, changed=None):
    """Images, and the same with other values outside of three pixels from the border on."""
    one = RANDOM.uniform(1.0, 2.0, size=shape)
    inner = np.zeros(shape, bool)
    inner[:, 3:-3, 3:-3] = True
    other = np.where(inner, one, one + RANDOM.uniform(0.1, 0.2, size=shape))
    if changed is not None:
        other = one.copy()
        other.reshape(-1)[:changed] += 0.1 * np.arange(1, changed + 1)
    return one, other, inner


@pytest.mark.parametrize(
    ("shape", "is_named"), [((2, 8, 8, 2), True), ((2, 7, 8, 2), False), ((2, 8, 7, 2), False), ((2, 64, 2), False)]
)
def test_a_border_is_that_of_images_with_an_inside(shape, is_named):
    one, other, _ = framed(shape)
    says = named(border, one, other)
    assert says == (
        "layer differs at the border of the image: 3 pixels from the border on, the channels are the same; "
        "at the border they are not"
        if is_named
        else None
    )
    assert named(border, one, other, "grad/0/layer") is None


@pytest.mark.parametrize(("changed", "is_named"), [(8, True), (7, False)])
def test_a_border_of_few_values_may_differ_for_any_reason(changed, is_named):
    assert (named(border, *framed((2, 8, 8, 2), changed)[:2]) is not None) == is_named


def test_a_norm_may_scale_the_inside_of_what_was_padded_otherwise():
    one, other, inner = framed((2, 12, 12, 2))
    scaled = np.where(inner, 1.1 * other + 0.3, other)
    assert "up to the scale and shift that batch norm gives them" in named(border, one, scaled)
    assert named(border, one, 1.1 * one + 0.3) is None
    noise = RANDOM.normal(size=one.shape) * inner
    for off, is_named in ((0.5e-7, True), (3e-7, False)):
        size = off * np.linalg.norm((scaled - one)[inner]) / np.linalg.norm(noise)
        assert (named(border, one, scaled + size * noise) is not None) == is_named


@pytest.mark.parametrize(("off", "is_named"), [(0.9e-9, True), (1.1e-9, False)])
def test_the_inside_of_an_image_is_the_same_to_a_billionth_and_a_thousandth_of_what_differs(off, is_named):
    one, other, inner = framed((2, 12, 12, 2))
    noise = RANDOM.normal(size=one.shape) * inner
    size = np.linalg.norm(one[inner]) / np.linalg.norm(noise)
    assert (named(border, one, other + off * size * noise) is not None) == is_named
    small = one + 1e-7 * (other - one)
    size = 1e-7 * np.linalg.norm(other - one) / np.linalg.norm(noise)
    assert (named(border, one, small + off * 1e6 * size * noise) is not None) == is_named


TABLE = RANDOM.normal(size=(12, 3))


def silenced(*rows):
    other = TABLE.copy()
    other[list(rows)] = 0.0
    return other


@pytest.mark.parametrize("key", ["tower_grad/0/table", "grad//table"])
def test_rows_that_get_no_gradient_are_named(key):
    says = named(rows_without_gradient, TABLE, silenced(0, 5), key)
    assert says.startswith("no gradient reaches row 0, 5 of table: 2 of its 12 rows have the gradient zero")
    assert "row 0, 1, 2, 3, 4, 5, 6, 7 of table" in named(rows_without_gradient, TABLE, silenced(*range(8)), key)
    assert "row 0, 1, 2, 3, 4, 5, 6, 7, ... of table" in named(rows_without_gradient, TABLE, silenced(*range(9)), key)
    assert named(rows_without_gradient, TABLE, silenced(*range(12)), key) is None
    assert named(rows_without_gradient, TABLE, TABLE.copy(), key) is None
    assert named(rows_without_gradient, TABLE[:, None], silenced(0)[:, None], key) is None


def test_rows_that_get_no_gradient_stand_beside_the_right_ones():
    assert named(rows_without_gradient, TABLE, silenced(0), "var/0/table") is None
    one = TABLE.copy()
    one[3] = 0.0  # a row that no example looks up has none on either side
    assert "1 of its 12 rows" in named(rows_without_gradient, one, silenced(0, 3), "grad//table")
    for off, is_named in ((0.9e-9, True), (1.1e-9, False)):
        other = silenced(0)
        other[1, 1] += off * np.linalg.norm(TABLE)
        assert (named(rows_without_gradient, TABLE, other, "grad//table") is not None) == is_named
