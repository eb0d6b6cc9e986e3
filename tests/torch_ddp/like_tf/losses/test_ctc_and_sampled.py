import itertools
import math

import numpy as np
import pytest
import torch

from torch_ddp import like_tf
from torch_ddp.like_tf.losses import sampled as sampled_module

from ..closeness import assert_close, difference

# Labels, time, classes, lengths, options.
CTC = {
    "two examples": ([[1, 2], [0]], 4, 4, [4, 3], {}),
    "one class and the blank": ([[0]], 3, 2, [3], {}),
    "one step": ([[1]], 1, 3, [1], {}),
    "long": ([[0, 1, 1, 2, 0], [2, 2], [1]], 12, 4, [12, 7, 1], {}),
    "equal labels without room": ([[1, 1], [0]], 2, 4, [2, 2], {}),
    "longer than the input, ignored": (
        [[1, 1, 1], [0]],
        2,
        4,
        [2, 2],
        {"ignore_longer_outputs_than_inputs": True},
    ),
    "a blank ends the labels": ([[2, 0, 3], [1, 3, 3]], 4, 4, [4, 3], {}),
    "not merged": ([[1, 1, 2], [0]], 4, 4, [4, 2], {"ctc_merge_repeated": False}),
    "collapsed before": ([[1, 1, 2], [0]], 4, 4, [4, 2], {"preprocess_collapse_repeated": True}),
    "collapsed, not merged": (
        [[1, 1, 2], [0, 0]],
        5,
        4,
        [5, 2],
        {"preprocess_collapse_repeated": True, "ctc_merge_repeated": False},
    ),
    "batch first": ([[1, 2], [0]], 4, 4, [4, 3], {"time_major": False}),
}
REFUSED = {
    "too long": ([[1, 1, 1], [0]], 2, 4, [2, 2], {}),
    "too long before collapsing": ([[1, 1, 2], [0]], 3, 4, [2, 2], {"preprocess_collapse_repeated": True}),
    "no labels": ([[], [0]], 3, 4, [3, 2], {}),
    "no steps": ([[1], [0]], 3, 4, [3, 0], {}),
    "negative": ([[-1], [0]], 3, 4, [3, 2], {}),
    "behind a blank": ([[3, 1], [0]], 3, 4, [3, 2], {}),
    "a length above time": ([[1], [0]], 3, 4, [4, 2], {}),
}


def tf_ctc(tf, np, session, cases):
    """Returns losses and gradients of every case, or which of them are refused."""
    fetches, out = {}, {}
    for name, (labels, time, classes, lengths, options) in cases.items():
        shape = (len(labels), time, classes) if options.get("time_major") is False else (time, len(labels), classes)
        x = tf.constant(np.random.RandomState(0).randn(*shape))
        at = [(i, j) for i, row in enumerate(labels) for j in range(len(row))]
        sparse = tf.SparseTensor(
            np.array(at, dtype=np.int64).reshape(-1, 2),
            np.array([label for row in labels for label in row], dtype=np.int32),
            [len(labels), max(len(row) for row in labels)],
        )
        loss = tf.nn.ctc_loss(labels=sparse, inputs=x, sequence_length=np.array(lengths, np.int32), **options)
        fetches[name + "/loss"], fetches[name + "/dx"] = loss, tf.gradients(loss, [x])[0]
    with session() as opened:
        for name in cases:
            try:
                own = {key: tensor for key, tensor in fetches.items() if key.startswith(name + "/")}
                out.update(opened.run(own))
                out[name + "/refused"] = False
            except tf.errors.InvalidArgumentError:
                out[name + "/refused"] = True
    return out


def _ctc(labels, time, classes, lengths, options):
    shape = (len(labels), time, classes) if options.get("time_major") is False else (time, len(labels), classes)
    x = torch.tensor(np.random.RandomState(0).randn(*shape), requires_grad=True)
    rows = [torch.tensor(row, dtype=torch.int64) for row in labels]
    return like_tf.ctc_loss(rows, x, torch.tensor(lengths), **options), x


@pytest.mark.both_tensorflows
def test_ctc_and_its_gradient_are_tensorflows(tf):
    want = tf(tf_ctc, cases=CTC)
    for name, case in CTC.items():
        assert not want[f"{name}/refused"]
        loss, x = _ctc(*case)
        finite = np.isfinite(want[f"{name}/loss"])
        assert np.array_equal(torch.isfinite(loss).numpy(), finite), name
        # Its kernel adds logarithms with float32's log1p and exp, also of float64: that many digits and no more.
        assert_close(loss.detach().numpy()[finite], want[f"{name}/loss"][finite], 1e-7)
        loss.sum().backward()
        assert_close(x.grad, want[f"{name}/dx"], 1e-7)


def _by_enumeration(labels, log_probs, merge):
    """Adds the probabilities of all sequences of classes that mean these labels."""
    total, blank = torch.zeros((), dtype=torch.float64), log_probs.shape[1] - 1
    for path in itertools.product(range(blank + 1), repeat=len(log_probs)):
        read = [c for c, _ in itertools.groupby(path)] if merge else list(path)
        if [c for c in read if c != blank] == labels:
            total = total + log_probs[range(len(path)), list(path)].sum().exp()
    return -total.log()


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("labels", [[0], [1, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1, 0, 1]])
def test_ctc_is_the_sum_over_all_alignments_to_rounding(labels, merge):
    x = torch.randn(6, 1, 3, dtype=torch.float64, requires_grad=True)
    (want,) = torch.autograd.grad(_by_enumeration(labels, x[:, 0].log_softmax(-1), merge), [x])
    loss = like_tf.ctc_loss([torch.tensor(labels)], x, torch.tensor([6]), ctc_merge_repeated=merge)
    assert_close(loss[0], _by_enumeration(labels, x[:, 0].log_softmax(-1), merge), 1e-12)
    assert_close(torch.autograd.grad(loss[0], [x])[0], want, 1e-12)


@pytest.mark.both_tensorflows
def test_ctc_refuses_what_tensorflow_refuses(tf):
    want = tf(tf_ctc, cases=REFUSED)
    for name, case in REFUSED.items():
        assert want[f"{name}/refused"], name
        with pytest.raises(like_tf.LikeTfError, match=r"^ctc_loss: expected "):
            _ctc(*case)


def _any_labels(rng):
    classes, time, batch = rng.randint(2, 5), rng.randint(1, 8), rng.randint(1, 4)
    # The first is no blank; those behind may be, and one in twenty is no class at all.
    rows = [[int(label) for label in rng.randint(0, classes - 1, rng.randint(1, 5))] for _ in range(batch)]
    for row in rows:
        if rng.rand() < 0.2:
            row.append(int(classes - 1))
        if rng.rand() < 0.1:
            row.append(int(rng.randint(-1, classes)))
    lengths = [int(min(time + (rng.rand() < 0.03), max(len(row) + rng.randint(-1, 4), 1))) for row in rows]
    options = {
        name: True for name in ("preprocess_collapse_repeated", "ignore_longer_outputs_than_inputs") if rng.rand() < 0.3
    }
    return rows, int(time), int(classes), lengths, dict(options, ctc_merge_repeated=bool(rng.rand() < 0.7))


@pytest.mark.both_tensorflows
def test_any_labels_have_tensorflows_loss_and_gradient_or_its_refusal(tf):
    rng = np.random.RandomState(18)
    cases = {str(i): _any_labels(rng) for i in range(40)}
    want = tf(tf_ctc, cases=cases)
    refused = 0
    for name, case in cases.items():
        if want[f"{name}/refused"]:
            refused += 1
            with pytest.raises(like_tf.LikeTfError, match=r"^ctc_loss: expected "):
                _ctc(*case)
            continue
        loss, x = _ctc(*case)
        finite = np.isfinite(want[f"{name}/loss"])
        assert np.array_equal(torch.isfinite(loss).numpy(), finite), case
        assert np.abs(loss.detach().numpy()[finite] - want[f"{name}/loss"][finite]).max(initial=0) < 1e-6
        loss.sum().backward()
        assert np.abs(x.grad.numpy() - want[f"{name}/dx"]).max() < 1e-6
    assert 5 < refused < 35


def test_labels_that_begin_with_a_blank_are_refused_where_tensorflow_writes_outside_a_table():
    with pytest.raises(like_tf.LikeTfError, match=r"labels from 0 to 2 of example 0, at least one, got \[3\]"):
        like_tf.ctc_loss([torch.tensor([3])], torch.zeros(2, 1, 4), torch.tensor([2]))


def test_ctc_in_float32_is_torchs_where_both_have_a_rule():
    x = torch.randn(7, 2, 4, requires_grad=True)
    loss = like_tf.ctc_loss([torch.tensor([1, 2]), torch.tensor([0])], x, torch.tensor([7, 4]))
    plain = torch.nn.functional.ctc_loss(
        x.log_softmax(-1),
        torch.tensor([[1, 2], [0, 0]]),
        torch.tensor([7, 4]),
        torch.tensor([2, 1]),
        blank=3,
        reduction="none",
    )
    assert_close(loss, plain, 1e-6)


def tf_sampled(tf, np, session, weights, biases, labels, inputs, drawn, true_count, drawn_count, hits):
    variables = [tf.constant(x) for x in (weights, biases, inputs)]
    fetches = {}
    for name in ("nce_loss", "sampled_softmax_loss"):
        for removed in hits:
            loss = getattr(tf.nn, name)(
                weights=variables[0],
                biases=variables[1],
                labels=tf.constant(labels),
                inputs=variables[2],
                num_sampled=len(drawn),
                num_classes=len(weights),
                num_true=labels.shape[1],
                sampled_values=(tf.constant(drawn), tf.constant(true_count), tf.constant(drawn_count)),
                remove_accidental_hits=removed,
            )
            grads = tf.gradients(tf.reduce_sum(loss * np.cos(np.arange(len(labels)))), variables)
            key = f"{name}/{removed}"
            fetches[key + "/loss"] = loss
            for i, grad in enumerate(grads):
                fetches[f"{key}/{i}"] = tf.convert_to_tensor(grad)
    with session() as opened:
        return opened.run(fetches)


@pytest.mark.both_tensorflows
@pytest.mark.parametrize(("batch", "num_true"), [(5, 1), (3, 2), (1, 1)])
def test_nce_and_sampled_softmax_are_tensorflows_on_the_same_draws(tf, batch, num_true):
    rng = np.random.RandomState(3)
    given = {
        "weights": rng.randn(9, 4),
        "biases": rng.randn(9),
        "labels": rng.randint(0, 9, (batch, num_true)),
        "inputs": rng.randn(batch, 4),
        "drawn": np.array([0, 3, 4, 1, 8, 2]),
        "true_count": rng.uniform(0.1, 1, (batch, num_true)),
        "drawn_count": rng.uniform(0.1, 1, 6),
    }
    want = tf(tf_sampled, hits=[True, False], **given)
    for name in ("nce_loss", "sampled_softmax_loss"):
        for removed in (True, False):
            leaves = [torch.tensor(given[key], requires_grad=True) for key in ("weights", "biases", "inputs")]
            values = like_tf.SampledValues(*(torch.tensor(given[k]) for k in ("drawn", "true_count", "drawn_count")))
            loss = getattr(like_tf, name)(
                leaves[0],
                leaves[1],
                torch.tensor(given["labels"]),
                leaves[2],
                6,
                9,
                num_true,
                values,
                remove_accidental_hits=removed,
            )
            key = f"{name}/{removed}"
            assert_close(loss, want[f"{key}/loss"], 1e-12)
            (loss * torch.cos(torch.arange(batch, dtype=torch.float64))).sum().backward()
            for i, leaf in enumerate(leaves):
                assert_close(leaf.grad, want[f"{key}/{i}"], 1e-12)


def tf_sampler(tf, np, session, true, num_sampled, unique, range_max):
    drawn, true_count, count = tf.nn.log_uniform_candidate_sampler(
        tf.constant(true), true.shape[1], num_sampled, unique, range_max
    )
    with session() as opened:
        return opened.run({"drawn": drawn, "true": true_count, "count": count})


@pytest.mark.parametrize(("num_sampled", "unique"), [(4, True), (40, True), (50, True), (300, False)])
def test_expected_counts_are_tensorflows(tf2, num_sampled, unique):
    true = np.arange(50)[:, None]
    want = tf2(tf_sampler, true=true, num_sampled=num_sampled, unique=unique, range_max=50)
    # How often TensorFlow tried is in the counts alone, best in that of the rarest class.
    p = math.log(2) / math.log(51)
    tries = num_sampled
    if unique and abs(want["true"][0, 0] - p * num_sampled) > 1e-6:
        rarest = math.log(51 / 50) / math.log(51)
        tries = round(math.log1p(-float(want["true"][49, 0])) / math.log1p(-rarest))
        assert tries > num_sampled
    for classes, counts in ((torch.tensor(true), want["true"]), (torch.tensor(want["drawn"]), want["count"])):
        got = sampled_module._expected(classes, num_sampled, tries, 50)
        # From the count of one class in 24 bits: where nearly all tries hit, that leaves few digits.
        assert_close(got, counts, 1e-5 if num_sampled < 50 else 1e-2)


@pytest.mark.parametrize("unique", [True, False])
def test_the_sampler_draws_log_uniformly(unique):
    torch.manual_seed(0)
    counts, expected = torch.zeros(20), torch.zeros(20)
    for _ in range(400):
        values = like_tf.log_uniform_candidate_sampler(torch.arange(20)[:, None], 1, 8, unique, 20)
        assert values.sampled_candidates.shape == (8,)
        if unique:
            assert len(set(values.sampled_candidates.tolist())) == 8
        counts += torch.bincount(values.sampled_candidates, minlength=20)
        expected += values.true_expected_count[:, 0]
    # 400 draws of at most one (unique) or about 2: three deviations of the most frequent class are 60.
    assert (counts - expected).abs().max() < (60 if unique else 100)
    assert counts.sum() == 3200


def test_a_loss_draws_for_itself_what_it_is_not_given():
    weights, biases, inputs = torch.randn(30, 4), torch.randn(30), torch.randn(5, 4)
    labels = torch.arange(5)[:, None]
    torch.manual_seed(0)
    values = like_tf.log_uniform_candidate_sampler(labels, 1, 7, True, 30)
    for loss in (like_tf.nce_loss, like_tf.sampled_softmax_loss):
        torch.manual_seed(0)
        want = loss(weights, biases, labels, inputs, 7, 30, sampled_values=values)
        torch.manual_seed(0)
        assert torch.equal(loss(weights, biases, labels, inputs, 7, 30), want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: like_tf.log_uniform_candidate_sampler(torch.zeros(2, 1).long(), 1, 5, True, 4),
            "at most 4 classes to draw, none twice, got 5",
        ),
        (
            lambda: like_tf.nce_loss(torch.ones(4, 2), torch.ones(4), torch.zeros(3).long(), torch.ones(3, 2), 2, 4),
            r"^log_uniform_candidate_sampler: expected labels of shape \[batch, 1\], got \(3,\)",
        ),
        (
            lambda: like_tf.weighted_cross_entropy_with_logits(torch.ones(3), torch.ones(3, 1), 2.0),
            r"labels of the shape of the logits, \(3, 1\), got \(3,\)",
        ),
    ],
)
def test_what_does_not_fit_a_sampled_or_weighted_loss_is_refused(call, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        call()


def tf_weighted(tf, np, session, labels, x, weight):
    fetches = {}
    for shape in ((-1,), (2, -1), (0, 3)):
        logits = tf.constant(x[:0] if 0 in shape else x)
        z = tf.constant(labels[:0] if 0 in shape else labels)
        logits_in, z_in = tf.reshape(logits, shape), tf.reshape(z, shape)
        loss = tf.nn.weighted_cross_entropy_with_logits(z_in, logits_in, weight)
        fetches[f"{shape}/loss"], fetches[f"{shape}/dx"] = loss, tf.gradients(loss, [logits])[0]
    with session() as opened:
        return opened.run(fetches)


@pytest.mark.both_tensorflows
def test_weighted_cross_entropy_is_tensorflows_also_at_0_and_of_nothing(tf):
    x = np.array([0.0, -0.0, 1.5, -2.5, 40.0, -800.0])
    labels = np.array([0.0, 1.0, 0.3, 1.0, 0.0, 1.0])
    want = tf(tf_weighted, labels=labels, x=x, weight=2.5)
    for shape in ((-1,), (2, -1), (0, 3)):
        logits = torch.tensor(x[:0] if 0 in shape else x, requires_grad=True)
        z = torch.tensor(labels[:0] if 0 in shape else labels)
        loss = like_tf.weighted_cross_entropy_with_logits(z.reshape(shape), logits.reshape(shape), 2.5)
        loss.sum().backward()
        assert loss.shape == want[f"{shape}/loss"].shape
        if loss.numel():
            assert_close(loss, want[f"{shape}/loss"], 1e-14)
            assert_close(logits.grad, want[f"{shape}/dx"], 1e-14)


def test_what_plain_torch_does_otherwise(tf2, semantics):
    name = "two examples"
    want = tf2(tf_ctc, cases={name: CTC[name]})
    labels, time, classes, lengths, _ = CTC[name]
    x = torch.tensor(np.random.RandomState(0).randn(time, len(labels), classes))
    plain = torch.nn.functional.ctc_loss(
        x.log_softmax(-1), torch.tensor([[1, 2], [0, 0]]), torch.tensor(lengths), torch.tensor([2, 1]), reduction="none"
    )
    off = difference(plain, want[f"{name}/loss"])
    assert off > 0.1
    semantics(
        "CTC loss",
        "blank is the last class; labels end before a blank; more labels than steps are an error",
        "`ctc_loss`: blank is class 0; infinity",
        off,
        "ctc_loss",
    )
    labels, x = np.array([0.3, 1.0, 0.0]), np.array([0.5, -1.0, 2.0])
    want = tf2(tf_weighted, labels=np.tile(labels, 2), x=np.tile(x, 2), weight=2.5)["(2, -1)/loss"][0]
    logits, z = torch.tensor(x), torch.tensor(labels)
    plain = torch.nn.functional.binary_cross_entropy_with_logits(logits, z, torch.tensor(2.5), reduction="none")
    off = difference(plain, want)
    assert off > 0.1
    semantics(
        "weighted_cross_entropy_with_logits, weight 2.5",
        "multiplies what a label of 1 costs",
        "`weight=` multiplies all (`pos_weight=` is TensorFlow's)",
        off,
        "weighted_cross_entropy_with_logits",
    )
    semantics(
        "NCE and sampled softmax",
        "logits of targets and of a log-uniform sample, lowered by the logarithm of the expected counts",
        "none",
        None,
        "nce_loss, sampled_softmax_loss, log_uniform_candidate_sampler, SampledValues",
    )
