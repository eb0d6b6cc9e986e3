"""A loss is told to be another form of cross entropy from the logits and labels that a trace holds, tower by tower."""

import numpy as np
import pytest
from support.made_steps import evidence_between, first_at

from parity.diagnose.detectors.cross_entropy import cross_entropy_variant

RANDOM = np.random.default_rng(15)
LOGITS = [RANDOM.normal(size=(6, 4)) for _ in range(2)]
LABELS = [RANDOM.integers(0, 4, size=6) for _ in range(2)]


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def loss(logits, labels, share=0.0, twice=False):
    logp = log_softmax(np.exp(log_softmax(logits))) if twice else log_softmax(logits)
    own = -logp[np.arange(len(labels)), labels].mean()
    return (1 - share) * own - share * logp.mean()


def says(folder, form, logits=LOGITS, labels=LABELS, off=0.0, reference=0.0, facts=None, key="loss/0", parts=()):
    """Title and evidence for two towers, of which the second's loss is off, relative to it."""
    sides = [{}, {}]
    for tower in (0, 1):
        own = loss(logits[tower], labels[tower] % 4) * (1 + reference)
        other = form(logits[tower], labels[tower] % 4) * (1 + off * tower)
        for side, value in zip(sides, (own, other), strict=True):
            side[f"loss/{tower}"] = np.array(value)
            side |= {f"loss/{tower}/{part}": np.array(7.0) for part in parts}
            side[f"act/{tower}/logits"], side[f"feed/{tower}/labels"] = logits[tower], labels[tower]
            side[f"feed/{tower}/x"] = np.zeros((6, 3))
    cause = cross_entropy_variant(first_at(key), evidence_between(folder, *sides, {}, {}, facts))
    return cause and f"{cause.title}: {cause.evidence}"


def smoothed(share):
    return lambda logits, labels: loss(logits, labels, share)


def twice(logits, labels):
    return loss(logits, labels, twice=True)


MEAN = "the mean cross entropy of logits and labels is the reference's loss in every tower; "


@pytest.mark.parametrize("parts", [(), ("decay",)])
@pytest.mark.parametrize(
    ("form", "what", "evidence"),
    [
        (
            smoothed(0.1),
            "labels smoothed by 0.1",
            "with 0.1 of every label spread over the classes it is the candidate's",
        ),
        (smoothed(1.0), "labels smoothed by 1", "with 1 of every label spread over the classes it is the candidate's"),
        (smoothed(-0.1), "labels smoothed by -0.1", "with -0.1 of every label"),
        (twice, "the softmax twice (a loss on logits, fed with probabilities)", "this form of it is the candidate's"),
    ],
)
def test_another_form_of_a_cross_entropy_is_named(tmp_path, form, what, evidence, parts):
    text = says(tmp_path, form, parts=parts)
    title, _, rest = text.partition(": ")
    assert what in title
    assert rest.startswith(MEAN + evidence)


@pytest.mark.parametrize(
    "form", [smoothed(1.01), smoothed(-1.01), loss, lambda logits, labels: 1.1 * loss(logits, labels)]
)
def test_what_is_no_form_of_it_is_not_named(tmp_path, form):
    assert says(tmp_path, form) is None


@pytest.mark.parametrize("form", [smoothed(0.1), twice])
def test_a_form_holds_in_every_tower_to_a_billionth(tmp_path, form):
    for off, is_named in ((0.2e-9, True), (5e-9, False)):
        assert (says(tmp_path / str(off), form, off=off) is not None) == is_named


def test_what_the_graph_computes_in_float32_is_compared_to_a_millionth(tmp_path):
    facts = {"float32_in_float64": ["tf.losses"]}
    for reference, is_named in ((0.9e-6, True), (1.2e-6, False)):
        text = says(tmp_path / str(reference), twice, reference=reference, facts=facts)
        assert (text is not None) == is_named
    assert says(tmp_path / "exact", twice, reference=1e-8) is None


def test_a_small_share_leaves_a_thousandth_of_what_differs(tmp_path):
    for off, is_named in ((1e-12, True), (1e-9, False)):
        text = says(tmp_path / str(off), smoothed(1e-6), off=off)
        assert (text is not None) == is_named


def test_labels_are_integers_one_for_each_row_and_below_the_number_of_classes(tmp_path):
    for number, labels in enumerate((
        [each.astype(np.float64) for each in LABELS],
        [each[:, None] for each in LABELS],
        [np.where(each == 3, 4, each) for each in LABELS],
    )):  # fmt: skip
        sides = [{}, {}]
        for tower in (0, 1):
            for side, form in zip(sides, (loss, twice), strict=True):
                side[f"loss/{tower}"] = np.array(form(LOGITS[tower], LABELS[tower]))
                side[f"act/{tower}/logits"], side[f"feed/{tower}/labels"] = LOGITS[tower], labels[tower]
        evidence = evidence_between(tmp_path / str(number), *sides, {}, {})
        assert cross_entropy_variant(first_at("loss/0"), evidence) is None


def test_it_is_asked_of_losses_alone(tmp_path):
    assert says(tmp_path, twice, key="act/0/logits") is None


def test_towers_that_saw_the_same_tell_no_share(tmp_path):
    same = [LOGITS[0]] * 2, [LABELS[0]] * 2
    assert says(tmp_path / "share", smoothed(0.1), *same) is None
    assert says(tmp_path / "twice", twice, *same) is not None
