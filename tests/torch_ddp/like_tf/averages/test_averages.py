import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close, difference


def tf_variable_average(tf, np, session, w, decay, counted):
    variable, fed = tf.Variable(w[0]), tf.placeholder(w.dtype, w.shape[1:])
    count = tf.placeholder("int64", [])
    ema = tf.train.ExponentialMovingAverage(decay, num_updates=count if counted else None)
    with tf.control_dependencies([variable.assign(fed)]):
        update = ema.apply([variable])
    with session() as opened:
        for step in range(1, len(w)):
            opened.run(update, {fed: w[step], count: step})
        return {"average": opened.run(ema.average(variable))}


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("decay", [0.9, 0.9999])
def test_averages_of_variables_are_tensorflows_over_fifty_updates(tf, decay, counted):
    w = np.random.RandomState(0).randn(51, 3, 2)
    want = tf(tf_variable_average, w=w, decay=decay, counted=counted)["average"]
    variable = torch.nn.Parameter(torch.tensor(w[0]))
    ema = like_tf.ExponentialMovingAverage([variable], decay)
    for step in range(1, len(w)):
        with torch.no_grad():
            variable.copy_(torch.tensor(w[step]))
        ema.update(num_updates=step if counted else None)
    assert_close(ema.average(variable), want, 1e-14)


def tf_tensor_average(tf, np, session, x, decay, zero_debias):
    fed = tf.placeholder(x.dtype, x.shape[1:])
    ema = tf.train.ExponentialMovingAverage(decay, zero_debias=zero_debias)
    update = ema.apply([fed])
    out = []
    with session() as opened:
        for value in x:
            opened.run(update, {fed: value})
            out.append(opened.run(ema.average(fed)))
    return {"averages": out}


@pytest.mark.parametrize("zero_debias", [False, True])
def test_averages_of_tensors_start_at_zero_and_can_be_debiased(tf, zero_debias):
    x = np.random.RandomState(0).randn(20, 3)
    want = tf(tf_tensor_average, x=x, decay=0.99, zero_debias=zero_debias)["averages"]
    average = like_tf.MovingAverage(0.99, zero_debias)
    assert average.value is None
    got = torch.stack([average.update(torch.tensor(value)) for value in x])
    assert_close(got, want, 1e-13)
    assert torch.equal(average.value, got[-1])


def test_plain_averaged_model_takes_the_first_value_that_it_sees(tf2, semantics):
    w = np.random.RandomState(0).randn(11, 3, 2)
    want = tf2(tf_variable_average, w=w, decay=0.9, counted=False)["average"]
    model = torch.nn.Linear(2, 3, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(w[0]))
    plain = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    for value in w[1:]:
        with torch.no_grad():
            model.weight.copy_(torch.tensor(value))
        plain.update_parameters(model)
    off = difference(plain.module.weight, want)
    assert off > 1e-2
    semantics(
        "Moving averages of weights, 10 updates at 0.9",
        "start at the initial values; of tensors at 0",
        "`AveragedModel` starts at the values of the first update",
        off,
        "ExponentialMovingAverage, MovingAverage",
    )


def test_averages_stand_in_for_the_weights_during_evaluation_and_can_be_saved():
    variable = torch.nn.Parameter(torch.zeros(2))
    ema = like_tf.ExponentialMovingAverage([variable], 0.5)
    with torch.no_grad():
        variable.fill_(4.0)
    ema.update()
    with pytest.raises(KeyError), ema.averaged():
        assert variable.tolist() == [2.0, 2.0]
        raise KeyError
    assert variable.tolist() == [4.0, 4.0]
    other = like_tf.ExponentialMovingAverage([torch.ones(2)], 0.5)
    other.load_state_dict(ema.state_dict())
    assert other.averages[0].tolist() == [2.0, 2.0]


def test_a_tensor_that_is_not_averaged_and_a_state_that_does_not_fit_are_refused():
    ema = like_tf.ExponentialMovingAverage([torch.ones(2)], 0.5)
    with pytest.raises(like_tf.LikeTfError, match=r"one of its 1 variables, got another tensor of shape \(2,\)"):
        ema.average(torch.ones(2))
    with pytest.raises(like_tf.LikeTfError, match=r"expected averages of shapes \[\(2,\)\], got \[\(3,\)\]"):
        ema.load_state_dict({"averages": [torch.ones(3)]})
