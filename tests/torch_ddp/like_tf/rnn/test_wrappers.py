import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference

BATCH, TIME, FEATURES, UNITS = 3, 4, 2, 5
LENGTHS = {"full": None, "ragged": [4, 1, 0], "one step": [1, 1, 1]}
# Graphs with loops and their gradients take seconds: the default tier has the lengths that show most.
EVERY_LENGTH = [name if name == "ragged" else pytest.param(name, marks=pytest.mark.slow) for name in LENGTHS]


def tf_cells(tf, np, session, x, lengths, contrib):
    """Runs stacked, plain and bidirectional cells, one after the other, in one graph."""
    inputs = tf.constant(x)

    def weighed(tensors):
        return sum(
            tf.reduce_sum(
                t * np.cos(np.arange(int(np.prod(t.shape.as_list())), dtype=x.dtype)).reshape(t.shape.as_list())
            )
            for t in tensors
        )

    def lstm(units):
        return tf.nn.rnn_cell.LSTMCell(units, use_peepholes=True, num_proj=3)

    def multi():
        cells = [lstm(5), tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.BasicRNNCell(2)]
        output, states = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), inputs, lengths, dtype=x.dtype)
        return [output, *states[0], *states[1:]]

    def basic():
        output, state = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.BasicRNNCell(5, activation=tf.nn.relu), inputs, lengths, dtype=x.dtype
        )
        return [output, state]

    def both():
        cells = lstm(5), tf.nn.rnn_cell.GRUCell(4)
        outputs, states = tf.nn.bidirectional_dynamic_rnn(cells[0], cells[1], inputs, lengths, dtype=x.dtype)
        return [*outputs, *states[0], states[1]]

    def block():
        from tensorflow.contrib.rnn import GRUBlockCell

        output, state = tf.nn.dynamic_rnn(GRUBlockCell(5), tf.cast(inputs, "float32"), lengths, dtype="float32")
        return [tf.cast(output, x.dtype), tf.cast(state, x.dtype)]

    rng, fetches, loads = np.random.RandomState(1), {}, []
    for build in (multi, basic, both) + ((block,) if contrib else ()):
        with tf.variable_scope(build.__name__):
            tensors = build()
        own = [v for v in tf.trainable_variables() if v.op.name.startswith(build.__name__ + "/")]
        grads = tf.gradients(weighed(tensors), [inputs, *own])
        for i, tensor in enumerate(tensors):
            fetches[build.__name__ + "/out/" + str(i)] = tensor
        fetches[build.__name__ + "/dx"] = grads[0]
        for i, (variable, grad) in enumerate(zip(own, grads[1:])):  # noqa: B905 - Python 3.7 reads it
            # Numbers that float32 holds: the block cell has no other kernel.
            loads.append((variable, np.float32(rng.randn(*variable.shape.as_list()) * 0.5).astype(x.dtype)))
            fetches[f"{build.__name__}/w/{i:02d}"] = tf.cast(variable, x.dtype)
            fetches[f"{build.__name__}/dw/{i:02d}"] = tf.cast(grad, x.dtype)
    with session() as opened:
        for variable, value in loads:
            variable.load(value, opened)
        return opened.run(fetches)


def _inputs():
    return np.float32(np.random.RandomState(0).randn(BATCH, TIME, FEATURES)).astype(np.float64)


@pytest.fixture(scope="module")
def answers():
    return {}


def _ask(answers, tf, contrib, lengths):
    key = (contrib, lengths)
    if key not in answers:
        answers[key] = tf(tf_cells, x=_inputs(), lengths=LENGTHS[lengths], contrib=contrib)
    return answers[key]


def _lstm():
    return like_tf.LSTMCell(FEATURES, 5, use_peepholes=True, proj_size=3)


# TensorFlow's order of the variables of each cell, by the names of this side.
ORDER = {
    like_tf.LSTMCell: ["weight", "bias", "w_f_diag", "w_i_diag", "w_o_diag", "projection"],
    like_tf.GRUCell: ["gates_weight", "gates_bias", "candidate_weight", "candidate_bias"],
    # Weights before biases: w_ru, b_ru, w_c, b_c stand in the order in which they are made.
    like_tf.GRUBlockCell: ["gates_weight", "gates_bias", "candidate_weight", "candidate_bias"],
    like_tf.BasicRNNCell: ["weight", "bias"],
}


def _parameters(cells):
    return [getattr(cell, name) for cell in cells for name in ORDER[type(cell)]]


def _run(build, x, lengths):
    """Returns the cells, and a function that gives their results once they have their weights."""
    if build == "multi":
        cells = [_lstm(), like_tf.GRUCell(3, 4), like_tf.BasicRNNCell(4, 2)]
        multi = like_tf.MultiRNNCell(cells).double()

        def run():
            output, states = like_tf.dynamic_rnn(multi, x, lengths)
            return [output, *states[0], *states[1:]]
    elif build == "both":
        cells = [_lstm().double(), like_tf.GRUCell(FEATURES, 4).double()]

        def run():
            outputs, states = like_tf.bidirectional_dynamic_rnn(*cells, x, lengths)
            return [*outputs, *states[0], states[1]]
    else:
        cell = like_tf.BasicRNNCell(FEATURES, 5, torch.relu) if build == "basic" else like_tf.GRUBlockCell(FEATURES, 5)
        cells = [cell.double()]

        def run():
            return list(like_tf.dynamic_rnn(cells[0], x, lengths))

    return cells, run


def _compare(build, want, lengths, limit):
    lengths = None if lengths is None else torch.tensor(lengths)
    x = torch.tensor(_inputs(), requires_grad=True)
    cells, run = _run(build, x, lengths)
    parameters = _parameters(cells)
    stored = [value for key, value in sorted(want.items()) if key.startswith(f"{build}/w/")]
    with torch.no_grad():
        for parameter, value in zip(parameters, stored, strict=True):
            parameter.copy_(torch.tensor(value.T))
    results = run()
    sum((t * torch.cos(torch.arange(t.numel(), dtype=t.dtype)).reshape(t.shape)).sum() for t in results).backward()
    for i, result in enumerate(results):
        assert_close(result, want[f"{build}/out/{i}"], limit)
    assert_close(x.grad, want[f"{build}/dx"], limit)
    for i, parameter in enumerate(parameters):
        assert_close(parameter.grad, want[f"{build}/dw/{i:02d}"].T, limit)


@pytest.mark.both_tensorflows
@pytest.mark.parametrize("lengths", EVERY_LENGTH)
@pytest.mark.parametrize("build", ["multi", "basic", "both"])
@pytest.mark.parametrize("version", ["tf2", pytest.param("tf1", marks=pytest.mark.tf1)])
def test_stacked_plain_and_bidirectional_cells_are_tensorflows(request, answers, version, build, lengths):
    want = _ask(answers, request.getfixturevalue(version), version == "tf1", lengths)
    _compare(build, want, LENGTHS[lengths], 1e-13)


@pytest.mark.tf1
@pytest.mark.parametrize("lengths", EVERY_LENGTH)
def test_the_block_gru_is_the_gru(tf1, answers, lengths):
    _compare("block", _ask(answers, tf1, True, lengths), LENGTHS[lengths], 3e-6)


def tf_dropped(tf, np, session, x, keep, variational):
    """One step of an LSTM in a DropoutWrapper, with the draws that it made."""
    tf.set_random_seed(1)
    cell = tf.nn.rnn_cell.LSTMCell(5)
    more = {"variational_recurrent": True, "input_size": x.shape[-1], "dtype": x.dtype} if variational else {}
    wrapped = tf.nn.rnn_cell.DropoutWrapper(cell, *keep, **more)
    state = tuple(tf.constant(np.random.RandomState(s).randn(x.shape[0], 5)) for s in (1, 2))
    output, new = wrapped(tf.constant(x), tf.nn.rnn_cell.LSTMStateTuple(*state))
    draws = [op.outputs[0] for op in tf.get_default_graph().get_operations() if op.type == "RandomUniform"]
    draws = [d for d in draws if d.dtype == x.dtype and "kernel" not in d.op.name]
    kernel, bias = tf.trainable_variables()
    fetches = {"output": output, "c": new[0], "h": new[1], "kernel": kernel, "bias": bias}
    fetches.update({f"draw/{i}": draw for i, draw in enumerate(draws)})
    fetches.update({f"state/{i}": part for i, part in enumerate(state)})
    with session() as opened:
        return opened.run(fetches)


@pytest.mark.both_tensorflows
@pytest.mark.parametrize("variational", [False, True])
def test_one_step_with_tensorflows_own_draws_is_tensorflows(tf, variational, monkeypatch):
    x = np.random.RandomState(0).randn(4, FEATURES)
    keep = [0.7, 0.6, 0.5]
    want = tf(tf_dropped, x=x, keep=keep, variational=variational)
    cell = like_tf.LSTMCell(FEATURES, 5).double()
    cell.load_state_dict({"weight": torch.tensor(want["kernel"].T), "bias": torch.tensor(want["bias"])})
    wrapped = like_tf.DropoutWrapper(cell, *keep, variational_recurrent=variational)
    draws = [torch.tensor(want[key]) for key in sorted(want) if key.startswith("draw/")]
    if variational:
        # Input, both parts of the state, of which the memory's counts for nothing, and output.
        assert len(draws) == 4
        wrapped.noise = {"input": draws[0], "state_0": draws[2], "output": draws[3]}
    else:
        assert len(draws) == 3
        queue = list(draws)
        monkeypatch.setattr(torch, "rand", lambda *_, **__: queue.pop(0))
    output, (c, h) = wrapped(torch.tensor(x), tuple(torch.tensor(want[f"state/{i}"]) for i in (0, 1)))
    for got, name in ((output, "output"), (c, "c"), (h, "h")):
        assert_close(got, want[name], 1e-14)
    assert (output == 0).any()
    assert (h == 0).any()
    assert not (c == 0).any()


def test_nothing_is_dropped_in_evaluation_or_with_probability_1():
    cell = like_tf.GRUCell(2, 3)
    x, state = torch.randn(2, 2), torch.randn(2, 3)
    want = cell(x, state)[0]
    assert torch.equal(like_tf.DropoutWrapper(cell, 0.5, 0.5, 0.5).eval()(x, state)[0], want)
    assert torch.equal(like_tf.DropoutWrapper(cell)(x, state)[0], want)
    dropped = like_tf.DropoutWrapper(cell, output_keep_prob=0.5)(torch.ones(64, 2), torch.ones(64, 3))
    assert (dropped[0] == 0).any()
    assert not (dropped[1] == 0).any()


def test_a_variational_draw_lasts_for_one_sequence_and_is_shared_by_the_examples():
    wrapped = like_tf.DropoutWrapper(like_tf.GRUCell(2, 50), output_keep_prob=0.5, variational_recurrent=True)
    stacked = like_tf.MultiRNNCell([wrapped])
    first, _ = like_tf.dynamic_rnn(stacked, torch.randn(3, 6, 2))
    zeros = first == 0
    assert (zeros == zeros[:1, :1]).all()
    assert 5 < int(zeros[0, 0].sum()) < 45
    assert not torch.equal(like_tf.dynamic_rnn(stacked, torch.randn(3, 6, 2))[0] == 0, zeros)


def test_a_sequence_of_no_steps_has_no_outputs_and_its_first_state():
    cell, state = like_tf.GRUCell(2, 3), torch.randn(4, 3)
    outputs, last = like_tf.dynamic_rnn(cell, torch.zeros(4, 0, 2), initial_state=state)
    assert outputs.shape == (4, 0, 3)
    assert torch.equal(last, state)


def test_time_may_be_the_first_axis():
    cell, x, lengths = like_tf.GRUCell(2, 3), torch.randn(4, 5, 2), torch.tensor([5, 1, 0, 3])
    want, last = like_tf.dynamic_rnn(cell, x, lengths)
    got, again = like_tf.dynamic_rnn(cell, x.transpose(0, 1), lengths, time_major=True)
    assert torch.equal(got.transpose(0, 1), want)
    assert torch.equal(last, again)
    (forward, backward), _ = like_tf.bidirectional_dynamic_rnn(cell, cell, x.transpose(0, 1), lengths, time_major=True)
    assert torch.equal(forward, got)
    assert backward.shape == (5, 4, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda cell: like_tf.MultiRNNCell([]), r"MultiRNNCell: expected at least one cell, got none"),
        (lambda cell: like_tf.MultiRNNCell([cell])(torch.ones(1, 2), torch.ones(1, 3)), r"length 1, got a Tensor"),
        (lambda cell: like_tf.MultiRNNCell([cell])(torch.ones(1, 2), ()), r"length 1, got a tuple of length 0"),
        (lambda cell: like_tf.DropoutWrapper(cell, output_keep_prob=1.5), r"output_keep_prob in \(0, 1\], got 1.5"),
        (lambda cell: like_tf.DropoutWrapper(cell, input_keep_prob=0.0), r"input_keep_prob in \(0, 1\], got 0.0"),
        (lambda cell: like_tf.dynamic_rnn(cell, torch.ones(3, 2)), r"three axes, got shape \(3, 2\)"),
        (lambda cell: like_tf.dynamic_rnn(cell, torch.ones(3, 1, 2), torch.tensor([1])), r"shape \(3,\), got \(1,\)"),
        (
            lambda cell: like_tf.bidirectional_dynamic_rnn(cell, cell, torch.ones(1, 2, 2), torch.tensor([3])),
            r"lengths of at most 2 steps, got 3",
        ),
    ],
)
def test_what_tensorflow_refuses_is_refused(call, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        call(like_tf.GRUCell(2, 3))


def test_what_plain_torch_does_otherwise(tf2, answers, semantics):
    want = _ask(answers, tf2, False, "ragged")
    plain = torch.nn.RNN(FEATURES, 5, nonlinearity="relu", batch_first=True, dtype=torch.float64)
    kernel, bias = (torch.tensor(want[f"basic/w/0{i}"].T) for i in (0, 1))
    with torch.no_grad():
        plain.weight_ih_l0.copy_(kernel[:, :FEATURES])
        plain.weight_hh_l0.copy_(kernel[:, FEATURES:])
        plain.bias_ih_l0.copy_(bias)
        plain.bias_hh_l0.zero_()
    outputs, _ = plain(torch.tensor(_inputs()))
    off = difference(outputs, want["basic/out/0"])
    assert off > 0.1
    semantics(
        "Recurrent cells over sequences of other lengths",
        "zeros past an example's end, its state stays, backward from its own end; states of stacked cells are a tuple",
        "`nn.RNN` of padded sequences goes on to the last step",
        off,
        "BasicRNNCell, MultiRNNCell, bidirectional_dynamic_rnn",
    )
    semantics(
        "DropoutWrapper",
        "each step draws anew, or with variational_recurrent once; the state but an LSTM's memory",
        "`nn.LSTM(dropout=)`: between layers alone",
        None,
        "DropoutWrapper",
    )
    semantics("GRUBlockCell", "GRUCell under other names of its variables", "none", None, "GRUBlockCell")
