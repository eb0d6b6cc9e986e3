"""Each form of a loss is what its name says: computed here by its definition, example by example."""

import math

import numpy as np
import pytest

from parity.diagnose.layers.loss_forms import ctc_losses, forms

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(6, 4))
LABELS = np.array([0, 1, 0, 1, 3, 3])
HOT = np.eye(4)[LABELS]
LOGP = X - np.log(np.exp(X).sum(axis=1, keepdims=True))
OWN = -LOGP[np.arange(6), LABELS]
SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
MARGINS = (0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0)
TARGETS = (0.0, 1.0, 0.9, 0.1, 0.8, 0.2, 0.95, 0.05, 0.7, 0.3)


def crossed(x, t):
    """The cross entropy of a sigmoid and of a share of 1."""
    p = 1 / (1 + np.exp(-x))
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


def against(q):
    """The cross entropy of the softmax and of some shares of all classes, (6, 4)."""
    return -(q * LOGP).sum(axis=1)


def assert_forms(yielded, of, expected, cross_entropy=None):
    """Those of some tensors are as many as expected, under their names, with their values."""
    found = {form.name: form for form in yielded if form.of == of}
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name].values, values, rtol=1e-10, atol=1e-14, err_msg=name)
        assert cross_entropy is None or found[name].cross_entropy == (name in cross_entropy), name


def cross_entropies():
    yield "the softmax cross entropy", OWN
    for share in SHARES:
        others = (1 - share) * HOT + share / 3 * (1 - HOT)
        yield f"the cross entropy with labels smoothed by {share}", against((1 - share) * HOT + share / 4)
        words = f"the cross entropy with {share} spread over the other classes"
        yield words, against(others)
        yield f"{words}, less the entropy of the labels", against(others) + (others * np.log(others)).sum(axis=1)
        words = f"the cross entropy with {1 - share:g} at the label and nothing elsewhere"
        yield words, against((1 - share) * HOT)
    p = np.exp(LOGP)
    yield "the cross entropy with the softmax taken twice", np.log(np.exp(p).sum(axis=1)) - (HOT * p).sum(axis=1)
    yield "the sigmoid cross entropy of all classes, added up,", crossed(X, HOT).sum(axis=1)
    yield "the sigmoid cross entropy of all classes, averaged,", crossed(X, HOT).sum(axis=1) / 4
    for gamma in (1, 2, 5):
        yield f"the focal loss of gamma {gamma}", (1 - (p * HOT).sum(axis=1)) ** gamma * OWN
    yield "the squared difference of the softmax", ((p - HOT) ** 2).sum(axis=1)
    each = zip(X, LABELS, strict=True)
    hinges = [sum(max(0.0, 1 + x[k] - x[label]) for k in range(4) if k != label) for x, label in each]
    yield "the hinge loss over the other classes", hinges
    yield "minus what stands at the label", -(HOT * X).sum(axis=1)


# (6, 1, 4) and (6, 1): with a second axis there are no triplets of the batch.
ROWS, COLUMN = X.reshape(6, 1, 4), LABELS.reshape(6, 1)


def of_labels(output, labels):
    """What is made of an output by labels alone, without what is made of labels for a CTC loss."""
    return [form for form in forms({"x": output}, {"y": labels}) if "CTC" not in form.name]


def test_cross_entropies_of_integer_labels():
    expected = {name: np.reshape(values, (6, 1)) for name, values in cross_entropies()}
    assert_forms(of_labels(ROWS, COLUMN), "x and y", expected, expected)
    for form in of_labels(ROWS, COLUMN):
        np.testing.assert_array_equal(form.labels, COLUMN if form.of == "x and y" else [])


def test_a_logarithm_is_taken_of_what_is_positive_everywhere():
    name = "the logarithm of what stands at the label"
    found = {form.name: form.values for form in of_labels(np.exp(ROWS), COLUMN)}
    np.testing.assert_allclose(found[name], -X[np.arange(6), LABELS][:, None], rtol=1e-12)
    assert name not in {form.name for form in of_labels(np.maximum(ROWS, 0.0), COLUMN)}


def first_of(output, labels, of="x and y"):
    """The softmax cross entropy, None where there is none."""
    each = (form.values for form in forms({"x": output}, {"y": labels}) if form.of == of)
    return next(each, None)


@pytest.mark.parametrize("outside", [-1, 4, 255])
def test_labels_that_are_no_class_count_as_the_first(outside):
    labels = LABELS.copy()
    labels[1] = outside
    expected = np.where(np.arange(6) == 1, -LOGP[:, 0], OWN)
    np.testing.assert_allclose(first_of(X, labels), expected, rtol=1e-12)
    assert first_of(X, np.full(6, outside)) is None


def test_one_class_has_no_cross_entropy_and_one_value_for_each_example_neither():
    assert first_of(RANDOM.normal(size=(6, 1)), np.zeros((6, 2), int)) is None
    assert first_of(RANDOM.normal(size=(6, 1, 1)), np.zeros((6, 1), int), "x and y, those of the step after") is None
    assert first_of(RANDOM.normal(size=7), LABELS) is None
    assert first_of(X, np.zeros(0, int)) is None
    assert first_of(X, LABELS[:5]) is None
    two = first_of(np.array([[1.0, 3.0], [2.0, 0.5]]), np.array([[1], [0]]))
    np.testing.assert_allclose(two, np.log1p(np.exp([[-2.0], [-1.5]])), rtol=1e-12)


def test_classes_may_stand_behind_the_first_axis_as_torch_has_them():
    labels = RANDOM.integers(0, 4, size=(3, 2, 5))
    output = RANDOM.normal(size=(3, 2, 5, 4))
    first = first_of(output, labels)
    p = np.exp(output) / np.exp(output).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(first, -np.log(np.take_along_axis(p, labels[..., None], -1))[..., 0], rtol=1e-12)
    np.testing.assert_allclose(first_of(np.moveaxis(output, -1, 1), labels), first, rtol=1e-14)


def steps(output, labels):
    """What the softmax cross entropies are of: the labels that belong to each step."""
    yielded = forms({"x": output}, {"y": labels})
    return {form.of: form.values for form in yielded if form.name == "the softmax cross entropy"}


def test_more_labels_than_steps_may_begin_anywhere():
    output, labels = RANDOM.normal(size=(2, 3, 4)), RANDOM.integers(0, 4, size=(2, 5))
    found = steps(output, labels)
    assert sorted(found) == [f"x and y[:, {first}:{first + 3}]" for first in (0, 1, 2)]
    for first in (0, 1, 2):
        own = steps(output, labels[:, first : first + 3])
        np.testing.assert_array_equal(found[f"x and y[:, {first}:{first + 3}]"], own["x and y"])


def test_as_many_labels_as_steps_may_be_those_of_a_step_on():
    output, labels = RANDOM.normal(size=(2, 3, 4)), np.array([[0, 1, 2], [3, 1, 0]])
    found = steps(output, labels)
    assert sorted(found) == ["x and y", "x and y, those of the step after", "x and y, those of the step before"]
    after, before = np.array([[1, 2, 0], [1, 0, 3]]), np.array([[2, 0, 1], [0, 3, 1]])
    np.testing.assert_array_equal(found["x and y, those of the step after"], steps(output, after)["x and y"])
    np.testing.assert_array_equal(found["x and y, those of the step before"], steps(output, before)["x and y"])
    assert sorted(steps(output[:, :1], labels[:, :1])) == ["x and y"]
    assert sorted(steps(output[:1], labels)) == []


def differences(d):
    """Losses of a difference."""
    yield "the squared difference", d * d
    yield "half the squared difference", d * d / 2
    yield "the absolute difference", np.maximum(d, -d)
    yield "the logarithm of the hyperbolic cosine", np.log(np.cosh(d))
    for beta, words in ((1, ""), (1 / 9, "0.111111"), (0.5, "0.5"), (0.1, "0.1"), (2, "2")):
        # Of slope 1 from beta on, where the square has that slope too.
        smooth = np.where(abs(d) > beta, abs(d) - beta / 2, d * d / beta / 2)
        yield (f"smooth L1 of beta {words}" if words else "the Huber loss"), smooth
        if words:
            yield f"the Huber loss of delta {words}", beta * smooth
    yield "the root of the squared difference and 1e-6", np.hypot(d, 1e-3)


def binary(x, t):
    """Losses of a probability of 1, (6, 4), and of what is 0 or 1."""
    yield "the sigmoid cross entropy", crossed(x, t)
    for share in SHARES:
        smoothed = np.where(t == 1, 1 - share / 2, share / 2)
        yield f"the sigmoid cross entropy with labels smoothed by {share}", crossed(x, smoothed)
        yield f"the sigmoid cross entropy with 1 smoothed to {1 - share:g}", crossed(x, (1 - share) * t)
    p = np.where(t == 1, 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x)))  # of what is the case
    for gamma in (1, 2):
        yield f"the focal loss of gamma {gamma}", -((1 - p) ** gamma) * np.log(p)
        for alpha in (0.25, 0.75):
            weight = np.where(t == 1, alpha, 1 - alpha)
            yield f"the focal loss of gamma {gamma} and alpha {alpha}", -weight * (1 - p) ** gamma * np.log(p)


def distances(x, t):
    yield "the distance", [math.dist(one.reshape(-1), other.reshape(-1)) for one, other in zip(x, t, strict=True)]
    yield "the distance along the last axis", np.linalg.norm(x - t, axis=-1)


def test_losses_of_an_output_and_numbers():
    targets = RANDOM.normal(size=(6, 2, 2))
    expected = {**dict(differences(X.reshape(6, 2, 2) - targets)), **dict(distances(X.reshape(6, 2, 2), targets))}
    assert_forms(forms({"x": X}, {"t": targets}), "x and t", expected, ())
    flat = targets.reshape(-1)
    assert_forms(forms({"x": X}, {"t": flat}), "x and t", dict(differences(X.reshape(-1) - flat)))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_losses_of_an_output_and_what_is_0_or_1(dtype):
    of_labels = dict(binary(X, HOT))
    expected = {**of_labels, **dict(differences(X - HOT)), **dict(distances(X, HOT))}
    yielded = list(forms({"x": X}, {"t": HOT.astype(dtype)}))
    assert_forms(yielded, "x and t", expected, of_labels)
    for form in yielded:
        counted = form.of == "x and t" and dtype is np.int64 and not form.name.startswith("the distance")
        np.testing.assert_array_equal(form.labels, HOT if counted else [])


def test_probabilities_are_what_is_between_0_and_1_everywhere():
    p = RANDOM.uniform(0.1, 0.9, size=(6, 4))
    name = "the cross entropy of probabilities"
    found = {form.name: form for form in forms({"x": p}, {"t": HOT})}
    np.testing.assert_allclose(found[name].values, -np.log(np.where(HOT == 1, p, 1 - p)), rtol=1e-12)
    assert found[name].cross_entropy
    for end in (0.0, 1.0):
        p[2, 3] = end
        assert name not in {form.name for form in forms({"x": p}, {"t": HOT})}
    for off in (-1e-6, 1 + 1e-6):
        off_one = HOT.copy()
        off_one[2, 3] = off
        assert "the sigmoid cross entropy" not in {form.name for form in forms({"x": p}, {"t": off_one})}


def alone(x):
    """Losses of an output by itself."""
    for target in TARGETS:
        yield f"the sigmoid cross entropy against {target:g}", crossed(x, target)
        yield f"minus the sigmoid cross entropy against {target:g}", -crossed(x, target)
        yield f"the squared difference from {target:g}", (x - target) ** 2
        yield f"half the squared difference from {target:g}", (x - target) ** 2 / 2
    for margin in MARGINS:
        words = f"the hinge loss with a margin of {margin:g}"
        yield f"{words}, of minus what it is", np.where(x < margin, margin - x, 0)
        yield words, np.where(x > -margin, margin + x, 0)
    yield "minus", -x
    yield "the size", np.sqrt(x * x)


def test_losses_of_an_output_alone():
    lengths = np.array([0.5, 0.9, 1.1, 2.0, 3.0, 0.2])  # on both sides of 1
    cube = (lengths[:, None] * X / np.linalg.norm(X, axis=1, keepdims=True)).reshape(6, 2, 2)
    norms = np.array([math.hypot(*row.reshape(-1)) for row in cube])
    of_examples = {
        "the norm of each example": norms,
        "the squared norm of each example": norms**2,
        "half the squared norm of each example": norms**2 / 2,
        "the squared distance of each norm from 1": (norms - 1) ** 2,
        "what each norm is above 1, squared": np.where(norms > 1, norms - 1, 0) ** 2,
    }
    crosses = [name for name, _ in alone(X) if "cross entropy" in name]
    assert_forms(forms({"x": cube}, {}), "x", {**dict(alone(cube)), **of_examples}, crosses)
    assert_forms(forms({"x": X[0]}, {}), "x", dict(alone(X[0])))


def test_what_is_given_may_be_the_loss_of_each_example_itself():
    assert [(form.name, form.of) for form in forms({"x": X}, {}, ["x"])] == [("what x gives", "")]
    assert list(forms({"x": X[:1, :1]}, {})) == []
    feeds = {"y": LABELS, "t": HOT}
    assert [form.name for form in forms({"x": X, "z": X}, feeds, ["x", "z"])] == ["what x gives", "what z gives"]


def test_divergences_of_a_mean_and_a_spread():
    mean, spread = RANDOM.normal(size=(2, 3)), RANDOM.uniform(0.5, 2.0, size=(2, 3))
    variances = {
        "the logarithm of the variance": np.exp(spread),
        "the logarithm of the deviation": np.exp(spread) ** 2,
        "the deviation": spread**2,
        "the variance": spread,
    }
    expected = dict(differences(mean - spread))
    for words, variance in variances.items():
        name = f"the Kullback-Leibler divergence, b as {words},"
        expected[name] = (mean**2 + variance - np.log(variance) - 1) / 2
        expected[f"twice {name}"] = 2 * expected[name]
        expected[f"minus {name}"] = -expected[name]
    assert_forms(forms({"a": mean, "b": spread}, {}), "a and b", expected, ())
    swapped = {form.name for form in forms({"a": mean, "b": spread}, {}) if form.of == "b and a"}
    assert len(swapped) == 12  # of a difference the order says nothing
    assert not [form for form in forms({"a": mean, "b": spread.T}, {}) if " and " in form.of]
    assert not [form for form in forms({"a": mean[0, :1], "b": spread[0, :1]}, {}) if " and " in form.of]
    spread[0, 0] = 0.0
    with np.errstate(all="ignore"):
        kinds = {form.name for form in forms({"a": mean, "b": spread}, {}) if form.of == "a and b"}
    assert "the Kullback-Leibler divergence, b as the logarithm of the variance," in kinds
    assert not [name for name in kinds if name.endswith(("as the variance,", "as the deviation,"))]


def triplets(points, labels, power):
    """Triplet losses of a batch, by the distance of points to a power, margin by margin."""
    apart = [[math.dist(one, other) ** power for other in points] for one in points]
    own = [
        [d for d, y in zip(row, labels, strict=True) if y == label] for row, label in zip(apart, labels, strict=True)
    ]
    different = [
        [d for d, y in zip(row, labels, strict=True) if y != label] for row, label in zip(apart, labels, strict=True)
    ]
    # A distance of 0 among its own is that from itself.
    positives = {
        "the farthest of its class": [max(each) for each in own],
        "the mean of its class": [sum(each) / len(each) for each in own],
        "the mean of the others of its class": [sum(each) / (len(each) - 1) for each in own],
        "the nearest of its class": [sorted(each)[1] for each in own],
    }
    negatives = {
        "the nearest of another class": [min(each) for each in different],
        "the farthest of another class": [max(each) for each in different],
        "the mean of other classes": [sum(each) / len(each) for each in different],
    }
    unit = {1: "distances", 2: "squared distances"}[power]
    for positive, p in positives.items():
        for negative, n in negatives.items():
            apart = np.subtract(p, n)
            words = f"the triplet loss by {unit}, {positive}, {negative}"
            yield from ((f"{words}, a margin of {margin:g}", np.maximum(apart + margin, 0)) for margin in MARGINS)
            yield f"{words}, a soft margin", np.log1p(np.exp(apart))


POINTS = RANDOM.normal(size=(7, 3))
CLASSES = np.array([0, 1, 0, 1, 2, 2, 2])


def triplets_of(output, labels):
    return [form for form in forms({"x": output}, {"y": labels}) if "triplet" in form.name]


def test_triplets_of_points_and_of_their_distances():
    expected = dict(triplets(POINTS, CLASSES, 1)) | dict(triplets(POINTS, CLASSES, 2))
    assert_forms(triplets_of(POINTS, CLASSES), "x and y", expected, ())
    table = np.linalg.norm(POINTS[:, None] - POINTS[None], axis=2)
    assert_forms(
        [form for form in triplets_of(table, CLASSES) if "squared, and" in form.of], "x, squared, and y", expected
    )
    table[0, 1] = -1e-9
    assert {form.of for form in triplets_of(table, CLASSES)} == {"x and y"}
    assert {form.of for form in triplets_of(np.abs(POINTS), CLASSES)} == {"x and y"}


def test_triplets_need_a_second_class_and_another_example_of_each():
    assert not triplets_of(POINTS, np.zeros(7, int))
    assert not triplets_of(POINTS, np.array([0, 1, 0, 1, 2, 2, 3]))


@pytest.mark.parametrize(("rows", "paired"), [(512, True), (513, False)])
def test_triplets_are_of_512_examples_at_most(rows, paired):
    labels = np.arange(rows) % 2
    each = forms({"x": np.arange(rows, dtype=float)[:, None] * [1.0, 2.0]}, {"y": labels})
    assert any("triplet" in form.name for form in each) == paired


def ctc_forms(output, labels, **feeds):
    yielded = forms({"x": output}, {"y": labels, **feeds})
    return {form.name: form.values for form in yielded if form.of == "x and y" and "CTC" in form.name}


CTC_LABELS = np.array([[1, 2, -1], [3, 3, 1]])
CTC_OUTPUT = RANDOM.normal(size=(2, 16, 5))
FRAMES = np.array([8, 16])


def test_ctc_losses_of_all_lengths_counts_and_blanks():
    found = ctc_forms(CTC_OUTPUT, CTC_LABELS, frames=FRAMES, sizes=np.array([2, 3]))
    lengths = {"all steps": [16, 16], "frames": FRAMES, "sizes": [2, 3], "sizes / 2, rounded up,": [1, 2]}
    lengths |= {f"frames / {by}, rounded {way},": FRAMES // by for by in (2, 4, 8) for way in ("up", "down")}
    lengths |= {
        "frames / 3, rounded up,": [3, 6],
        "frames / 3, rounded down,": [2, 5],
        "sizes / 2, rounded down,": [1, 1],
    }
    lengths |= {f"sizes / {by}, rounded up,": [1, 1] for by in (3, 4, 8)}  # rounded down the first has no step
    counts = {"as many labels as are not negative": [2, 3], "all labels": [3, 3], "sizes labels": [2, 3]}
    logp = CTC_OUTPUT - np.log(np.exp(CTC_OUTPUT).sum(axis=2, keepdims=True))
    names = []
    for length, steps_of in lengths.items():
        for count, labels_of in counts.items():
            for blank in (0, 4):
                name = f"the CTC loss with the blank at {blank}, {length} long, {count}"
                names += [name, f"{name}, over the number of labels,"]
                each = ctc_losses(logp, np.maximum(CTC_LABELS, 0), np.array(steps_of), np.array(labels_of), blank)
                np.testing.assert_allclose(found[name], each, rtol=1e-12, err_msg=name)
                np.testing.assert_allclose(found[names[-1]], each / labels_of, rtol=1e-12, err_msg=name)
    assert sorted(found) == sorted(names)


def test_ctc_losses_of_steps_first_and_of_no_labels():
    turned = ctc_forms(CTC_OUTPUT.transpose(1, 0, 2), CTC_LABELS)
    for name, values in ctc_forms(CTC_OUTPUT, CTC_LABELS).items():
        np.testing.assert_allclose(turned[name], values, rtol=1e-14)
    name = "the CTC loss with the blank at 4, all steps long, none labels"
    empty = ctc_forms(CTC_OUTPUT, CTC_LABELS, none=np.array([0, 0]))
    logp = CTC_OUTPUT - np.log(np.exp(CTC_OUTPUT).sum(axis=2, keepdims=True))
    np.testing.assert_allclose(empty[name], -logp[:, :, 4].sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(empty[f"{name}, over the number of labels,"], empty[name])


def test_a_ctc_loss_needs_labels_that_are_classes_of_as_many_examples():
    assert not ctc_forms(CTC_OUTPUT, np.where(CTC_LABELS == 3, 5, CTC_LABELS))
    assert ctc_forms(CTC_OUTPUT, np.where(CTC_LABELS == 3, 4, CTC_LABELS))
    assert not ctc_forms(CTC_OUTPUT[:1], CTC_LABELS)
    assert not ctc_forms(CTC_OUTPUT, CTC_LABELS.astype(float))
    lengths = {"frames": np.array([8.0, 16.0]), "more": np.array([8, 8, 8])}
    assert set(ctc_forms(CTC_OUTPUT, CTC_LABELS, **lengths)) == set(ctc_forms(CTC_OUTPUT, CTC_LABELS))
