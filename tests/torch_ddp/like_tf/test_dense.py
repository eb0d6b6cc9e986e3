import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from .closeness import assert_close, difference

COMBINERS = ("sum", "mean", "sqrtn")
IDS = {
    "ragged": [[1, 3, 1], [0], [], [4, 4], [2]],
    "one": [[2]],
    "one each": [[0], [4]],
}


def tf_lookups(tf, np, session, params, cases):
    table, fetches = tf.constant(params), {}
    for name, rows in cases.items():
        at = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
        shape = [len(rows), max(len(row) for row in rows)]
        ids = tf.SparseTensor(np.array(at, np.int64), np.array([i for row in rows for i in row], np.int64), shape)
        weights = tf.constant(np.cos(np.arange(len(at))) + 1.5)
        for combiner in ("sum", "mean", "sqrtn"):
            for weighed in (False, True):
                given = tf.SparseTensor(np.array(at, np.int64), weights, shape) if weighed else None
                out = tf.nn.embedding_lookup_sparse(table, ids, given, combiner=combiner)
                finite = tf.where(tf.is_finite(out), out, tf.zeros_like(out))
                loss = tf.reduce_sum(finite * np.cos(np.arange(params.shape[1])))
                key = f"{name}/{combiner}/{weighed}"
                fetches[key] = out
                if "[]" not in str(rows) or not weighed:
                    fetches[key + "/dparams"] = tf.convert_to_tensor(tf.gradients(loss, [table])[0])
                    if weighed:
                        fetches[key + "/dweights"] = tf.gradients(loss, [weights])[0]
    with session() as opened:
        return dict(opened.run(fetches), major=int(tf.__version__[0]))


@pytest.mark.both_tensorflows
def test_looking_several_rows_up_is_tensorflows(tf):
    params = np.random.RandomState(0).randn(5, 3)
    want = tf(tf_lookups, params=params, cases=IDS)
    for name, rows in IDS.items():
        ids = [torch.tensor(row, dtype=torch.int64) for row in rows]
        for combiner in COMBINERS:
            for weighed in (False, True):
                table = torch.tensor(params, requires_grad=True)
                weights = (torch.cos(torch.arange(sum(map(len, rows)), dtype=torch.float64)) + 1.5).requires_grad_()
                given = torch.split(weights, [len(row) for row in rows]) if weighed else None
                out = like_tf.embedding_lookup_sparse(table, ids, given, combiner)
                key = f"{name}/{combiner}/{weighed}"
                # The row without ids, divided by a sum of 0: NaN in TensorFlow 1, and 0 in TensorFlow 2.
                divided = name == "ragged" and weighed and combiner != "sum"
                assert out.isnan().any(1).tolist() == [divided and not row for row in rows]
                assert np.isnan(want[key]).any() == (divided and want["major"] == 1)
                assert_close(out.nan_to_num(), np.nan_to_num(want[key]), 1e-14)
                if f"{key}/dparams" in want:
                    (out * torch.cos(torch.arange(3, dtype=torch.float64))).sum().backward()
                    assert_close(table.grad, want[f"{key}/dparams"], 1e-13)
                    if weighed:
                        assert_close(weights.grad, want[f"{key}/dweights"], 1e-12)


def test_examples_behind_the_last_one_with_ids_are_there_and_a_batch_may_be_empty():
    table = torch.randn(3, 2)
    out = like_tf.embedding_lookup_sparse(table, [torch.tensor([1]), torch.tensor([], dtype=torch.int64)])
    assert torch.equal(out, torch.stack([table[1], torch.zeros(2)]))
    assert like_tf.embedding_lookup_sparse(table, []).shape == (0, 2)


def test_a_sparse_gradient_has_the_touched_rows_alone():
    table = torch.randn(5, 2, requires_grad=True)
    like_tf.embedding_lookup_sparse(table, [torch.tensor([3, 1, 3])], sparse=True).sum().backward()
    assert table.grad.is_sparse
    assert table.grad.coalesce().indices().tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: like_tf.embedding_lookup_sparse(t, [torch.tensor([0])], combiner="max"),
            "combiner of .*, got 'max'",
        ),
        (
            lambda t: like_tf.embedding_lookup_sparse(t, [torch.tensor([0, 1])], [torch.ones(1)]),
            r"weights for \[2\] ids, got \[1\]",
        ),
    ],
)
def test_what_does_not_fit_a_lookup_is_refused(call, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        call(torch.randn(3, 2))


@pytest.mark.on_cpu("a GPU loses its context by an index outside")
def test_ids_outside_the_rows_are_an_error_as_in_tensorflow():
    for bad in (3, -1):
        with pytest.raises((IndexError, RuntimeError)):
            like_tf.Embedding(3, 2)(torch.tensor([bad]))


def tf_layers(tf, np, session, x, rows, width):
    layer = tf.layers.Dense(64)
    y = layer(tf.constant(x))
    table = tf.get_variable("table", [rows, width], tf.float64)
    keras = tf.keras.layers.Embedding(rows, width)
    keras.build([None])
    with session() as opened:
        opened.run(tf.variables_initializer([keras.embeddings]))
        kernel, bias = opened.run([layer.kernel, layer.bias])
        return {
            "y": opened.run(y),
            "kernel": kernel,
            "bias": bias,
            "table": opened.run(table),
            "keras": opened.run(keras.embeddings),
        }


@pytest.mark.both_tensorflows
def test_layers_compute_and_start_as_tensorflows(tf):
    x = np.random.RandomState(0).randn(2, 3, 100)
    want = tf(tf_layers, x=x, rows=300, width=20)
    dense = like_tf.Dense(100, units=64).double()
    limit = (6 / 164) ** 0.5
    for kernel in (want["kernel"], dense.weight.detach().numpy()):
        assert limit * 0.99 < np.abs(kernel).max() <= limit
        assert abs(kernel.std() / (limit / 3**0.5) - 1) < 0.05
    assert (dense.bias == 0).all()
    assert (want["bias"] == 0).all()
    dense.load_state_dict({"weight": torch.tensor(want["kernel"].T), "bias": torch.tensor(want["bias"])})
    assert_close(dense(torch.tensor(x)), want["y"], 1e-14)
    for initial, key, bound in (
        ({}, "table", (6 / 320) ** 0.5),
        ({"initializer": like_tf.keras_uniform_}, "keras", 0.05),
    ):
        own = like_tf.Embedding(300, 20, **initial).weight.detach().numpy()
        for table in (want[key], own):
            assert bound * 0.99 < np.abs(table).max() <= bound * (1 + 1e-6)
            assert abs(table.std() / (bound / 3**0.5) - 1) < 0.05


def test_a_layer_without_a_bias_and_with_torchs_names():
    assert like_tf.Dense(2, out_features=3, bias=False).bias is None
    assert like_tf.Dense(2, units=3, use_bias=False).bias is None
    assert isinstance(like_tf.Dense(2, 3), torch.nn.Linear)
    with pytest.raises(like_tf.LikeTfError, match="expected one of out_features and units, got both"):
        like_tf.Dense(2, out_features=3, units=3)


def test_what_plain_torch_begins_with(semantics):
    bound = (6 / 164) ** 0.5
    off = difference(np.array((1 / 300) ** 0.5), np.array(bound / 3**0.5))
    assert off > 0.1
    semantics(
        "Initial kernel of a layer from 100 to 64, standard deviation",
        "glorot uniform; bias 0",
        "`Linear`: uniform, variance 1 / (3 fan_in); bias drawn",
        off,
        "Dense",
    )
    off = difference(np.array(1.0), np.array((2 / 320) ** 0.5))
    semantics(
        "Initial embedding of 300 rows of 20, standard deviation",
        "glorot uniform, of Keras uniform to 0.05",
        "`Embedding`: unit normal",
        off,
        "Embedding, keras_uniform_",
    )
    semantics(
        "Several rows of an embedding combined",
        "weights also for mean and sqrtn; NaN for an example without ids that has weights",
        "`EmbeddingBag`: weights for sums alone",
        None,
        "embedding_lookup_sparse",
    )
