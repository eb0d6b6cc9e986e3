import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference

BATCH, TIME, FEATURES, UNITS = 4, 5, 3, 6
CASES = {
    "BasicLSTMCell": ("BasicLSTMCell", {}),
    "BasicLSTMCell, forget bias 0.3": ("BasicLSTMCell", {"forget_bias": 0.3}),
    "LSTMCell": ("LSTMCell", {}),
    "LSTMCell, peepholes": ("LSTMCell", {"use_peepholes": True}),
    "LSTMCell, projection": ("LSTMCell", {"num_proj": 4}),
    "LSTMCell, everything": (
        "LSTMCell",
        {"use_peepholes": True, "num_proj": 4, "cell_clip": 0.4, "proj_clip": 0.3, "forget_bias": 0.5},
    ),
    "GRUCell": ("GRUCell", {}),
}
TORCH_NAMES = {
    "kernel": "weight",
    "bias": "bias",
    "w_f_diag": "w_f_diag",
    "w_i_diag": "w_i_diag",
    "w_o_diag": "w_o_diag",
    "projection/kernel": "projection",
    "gates/kernel": "gates_weight",
    "gates/bias": "gates_bias",
    "candidate/kernel": "candidate_weight",
    "candidate/bias": "candidate_bias",
}


def tf_rnn(tf, np, session, x, lengths, name, settings, units):
    """Unrolls the cell with random weights; returns them, the results, and all gradients, by variable name."""
    inputs = tf.constant(x)
    cell = getattr(tf.nn.rnn_cell, name)(units, **settings)
    outputs, state = tf.nn.dynamic_rnn(cell, inputs, lengths, dtype=x.dtype)
    states = list(state) if isinstance(state, tuple) else [state]
    rng, variables = np.random.RandomState(1), tf.trainable_variables()
    weights = [rng.randn(*v.shape.as_list()) * 0.5 for v in variables]
    cosines = np.cos(np.arange(int(np.prod(outputs.shape.as_list())), dtype=x.dtype))
    loss = tf.reduce_sum(outputs * cosines.reshape(outputs.shape.as_list())) + sum(tf.reduce_sum(s * s) for s in states)
    grads = tf.gradients(loss, [inputs, *variables])
    with session() as opened:
        for variable, value in zip(variables, weights):  # noqa: B905 - Python 3.7 reads it
            variable.load(value, opened)
        out = {"outputs": opened.run(outputs)}
        for i, value in enumerate(opened.run(states)):
            out[f"state/{i}"] = value
        values = opened.run(grads)
    out["dx"] = values[0]
    for variable, weight, grad in zip(variables, weights, values[1:]):  # noqa: B905 - Python 3.7 reads it
        short = variable.op.name.split("_cell/")[-1]
        out["w/" + short], out["dw/" + short] = weight, grad
    return out


def _inputs():
    return np.random.RandomState(0).randn(BATCH, TIME, FEATURES)


def _cell(name, settings, want):
    cls = like_tf.GRUCell if name == "GRUCell" else like_tf.LSTMCell
    cell = cls(FEATURES, UNITS, **settings).double()
    weights = {key[2:]: value for key, value in want.items() if key.startswith("w/")}
    cell.load_state_dict({TORCH_NAMES[key]: torch.tensor(value.T) for key, value in weights.items()})
    return cell


@pytest.mark.parametrize("lengths", [None, [5, 1, 3, 0]], ids=["full", "ragged"])
@pytest.mark.parametrize("case", CASES)
def test_outputs_states_and_all_gradients_are_tensorflows(tf, case, lengths):
    name, settings = CASES[case]
    x0 = _inputs()
    want = tf(tf_rnn, x=x0, lengths=lengths, name=name, settings=settings, units=UNITS)
    cell, x = _cell(name, settings, want), torch.tensor(x0, requires_grad=True)
    outputs, state = like_tf.dynamic_rnn(cell, x, None if lengths is None else torch.tensor(lengths))
    states = state if isinstance(state, tuple) else (state,)
    cosines = torch.cos(torch.arange(outputs.numel(), dtype=torch.float64)).reshape(outputs.shape)
    ((outputs * cosines).sum() + sum((s * s).sum() for s in states)).backward()
    assert_close(outputs, want["outputs"], 1e-14)
    for i, value in enumerate(states):
        assert_close(value, want[f"state/{i}"], 1e-14)
    assert_close(x.grad, want["dx"], 1e-14)
    grads = {key[3:]: value for key, value in want.items() if key.startswith("dw/")}
    assert len(grads) == len(list(cell.parameters()))
    for key, value in grads.items():
        assert_close(getattr(cell, TORCH_NAMES[key]).grad, value.T, 1e-14)


def test_torchs_gates_are_in_another_order(tf2, semantics):
    x = _inputs()
    want = tf2(tf_rnn, x=x, lengths=None, name="BasicLSTMCell", settings={}, units=UNITS)
    plain = torch.nn.LSTM(FEATURES, UNITS, batch_first=True, dtype=torch.float64)
    kernel, bias = torch.tensor(want["w/kernel"].T), torch.tensor(want["w/bias"])
    with torch.no_grad():
        plain.weight_ih_l0.copy_(kernel[:, :FEATURES])
        plain.weight_hh_l0.copy_(kernel[:, FEATURES:])
        plain.bias_ih_l0.copy_(bias)
        plain.bias_hh_l0.zero_()
    off = difference(plain(torch.tensor(x))[0], want["outputs"])
    assert off > 0.1
    semantics(
        "LSTM",
        "gates i, j, f, o; forget bias 1 added at run time; one bias",
        "gates i, f, g, o; no forget bias; two biases",
        off,
        "LSTMCell, dynamic_rnn",
    )


def test_torchs_gru_resets_after_the_product(tf2, semantics):
    x = _inputs()
    want = tf2(tf_rnn, x=x, lengths=None, name="GRUCell", settings={}, units=UNITS)
    plain = torch.nn.GRU(FEATURES, UNITS, batch_first=True, dtype=torch.float64)
    gates, candidate = torch.tensor(want["w/gates/kernel"].T), torch.tensor(want["w/candidate/kernel"].T)
    kernel = torch.cat([gates, candidate])
    with torch.no_grad():
        plain.weight_ih_l0.copy_(kernel[:, :FEATURES])
        plain.weight_hh_l0.copy_(kernel[:, FEATURES:])
        plain.bias_ih_l0.copy_(torch.tensor(np.concatenate([want["w/gates/bias"], want["w/candidate/bias"]])))
        plain.bias_hh_l0.zero_()
    off = difference(plain(torch.tensor(x))[0], want["outputs"])
    assert off > 1e-2
    semantics("GRU", "resets before the product", "resets after it, best conversion", off, "GRUCell")


def test_initial_values_are_tensorflows():
    gru, lstm = like_tf.GRUCell(3, 4), like_tf.LSTMCell(3, 4, use_peepholes=True, num_proj=2)
    assert (gru.gates_bias == 1).all()
    assert (gru.candidate_bias == 0).all()
    assert (lstm.bias == 0).all()
    assert [tuple(part.shape) for part in lstm.zero_state(5)] == [(5, 4), (5, 2)]
    assert sorted(dict(like_tf.LSTMCell(3, 4).named_parameters())) == ["bias", "weight"]


def test_an_initial_state_is_taken():
    cell, x = like_tf.GRUCell(3, 4), torch.randn(2, 1, 3)
    state = torch.randn(2, 4)
    assert torch.equal(like_tf.dynamic_rnn(cell, x, initial_state=state)[1], cell(x[:, 0], state)[0])
