from functools import partial

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from .both_sides import assert_same, gradients, moved, tf_dense, torch_dense

CASES = {
    "GradientDescent": ("GradientDescent", {}),
    "Momentum": ("Momentum", {"momentum": 0.9}),
    "Nesterov": ("Momentum", {"momentum": 0.9, "use_nesterov": True}),
    "Adam": ("Adam", {}),
    "Adam, beta2 0.99": ("Adam", {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-4}),
    "RMSProp": ("RMSProp", {}),
    "RMSProp with momentum": ("RMSProp", {"decay": 0.95, "momentum": 0.7, "epsilon": 1e-3}),
    "RMSProp centered": ("RMSProp", {"momentum": 0.7, "centered": True, "epsilon": 1e-6}),
    "Adagrad": ("Adagrad", {}),
    "Adagrad, other start": ("Adagrad", {"initial_accumulator_value": 0.3}),
    "Adadelta": ("Adadelta", {}),
    "Ftrl": ("Ftrl", {}),
    "Ftrl with l1, l2, shrinkage": (
        "Ftrl",
        {
            "l1_regularization_strength": 0.01,
            "l2_regularization_strength": 0.03,
            "l2_shrinkage_regularization_strength": 0.07,
        },
    ),
    "Ftrl, power -0.7": ("Ftrl", {"learning_rate_power": -0.7, "l2_regularization_strength": 0.1}),
}


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("case", CASES)
def test_fifty_steps_in_float64_end_where_tensorflow_ends(tf, case, resource):
    name, hyper = CASES[case]
    w, g = gradients()
    want = tf(tf_dense, w=w, g=g, name=name, hyper={"learning_rate": 0.1, **hyper}, resource=resource)
    got = torch_dense(partial(getattr(like_tf, name), lr=0.1, **hyper), w, g)
    assert_same(got, want, 1e-14)
    assert moved(got, want, w) < 1e-12


@pytest.mark.parametrize("case", CASES)
def test_fifty_steps_in_float32_differ_by_rounding_alone(tf, case):
    name, hyper = CASES[case]
    w, g = (x.astype(np.float32) for x in gradients())
    want = tf(tf_dense, w=w, g=g, name=name, hyper={"learning_rate": 0.1, **hyper}, resource=False)
    got = torch_dense(partial(getattr(like_tf, name), lr=0.1, **hyper), w, g)
    assert_same(got, want, 0.0 if name in ("GradientDescent", "Momentum") else 5e-6)
    if name == "Adam":  # the slots agree bit for bit, the quotient of 1.15 by a unit in the last place
        assert_same({s: got[s] for s in "mv"}, {s: want[s] for s in "mv"}, 0.0)


NAIVE = {
    "GradientDescent": (torch.optim.SGD, {}, "`w -= g * lr`, lr rounded to float32", "lr not rounded"),
    "Momentum": (
        partial(torch.optim.SGD, momentum=0.9),
        {"momentum": 0.9},
        "`a = mu * a + g; w -= lr * a`, rounded to float32",
        "the same rule, not rounded",
    ),
    "Adam": (
        torch.optim.Adam,
        {},
        "epsilon added before the bias correction; powers of beta in float32",
        "epsilon added after the bias correction",
    ),
    "RMSProp": (
        partial(torch.optim.RMSprop, alpha=0.9, eps=1e-10),
        {},
        "average starts at 1, epsilon under the root, lr inside the momentum",
        "starts at 0, epsilon outside, lr outside",
    ),
    "Adagrad": (
        torch.optim.Adagrad,
        {},
        "accumulator starts at 0.1, no epsilon",
        "starts at 0, epsilon 1e-10",
    ),
    "Adadelta": (
        torch.optim.Adadelta,
        {},
        "defaults rho 0.95, epsilon 1e-8",
        "defaults rho 0.9, epsilon 1e-6",
    ),
}


@pytest.mark.parametrize("name", NAIVE)
def test_plain_torch_with_the_same_named_arguments_ends_elsewhere(tf2, semantics, name):
    make, hyper, tensorflow, torch_rule = NAIVE[name]
    w, g = gradients()
    want = tf2(tf_dense, w=w, g=g, name=name, hyper={"learning_rate": 0.1, **hyper}, resource=False)
    naive = moved(torch_dense(partial(make, lr=0.1), w, g), want, w)
    assert naive > 1e-9
    semantics(f"{name}, change of the weights after 50 steps", tensorflow, torch_rule, naive, name)


def test_torch_has_no_ftrl(semantics):
    assert not hasattr(torch.optim, "Ftrl")
    semantics(
        "Ftrl", "l2 is doubled, weights without a gradient become 0, accumulator starts at 0.1", "none", None, "Ftrl"
    )


def test_the_powers_of_beta_are_float32_products_and_survive_a_state_dict():
    parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    adam = like_tf.Adam([parameter])
    parameter.grad = torch.ones(2, dtype=torch.float64)
    expected = np.float32(0.999)
    for _ in range(5):
        adam.step()
        expected = expected * np.float32(0.999)
    other = like_tf.Adam([torch.nn.Parameter(torch.ones(2, dtype=torch.float64))])
    other.load_state_dict(adam.state_dict())
    assert other.param_groups[0]["beta2_power"] == float(expected)
    assert float(expected) != 0.999**6
    assert torch.equal(next(iter(other.state.values()))["m"], adam.state[parameter]["m"])


def test_a_changed_learning_rate_is_rounded_when_it_is_used(tf):
    w, g = gradients(steps=6)
    rates = [0.1, 0.03, 0.007, 0.3, 0.01, 0.02]
    want = tf(tf_changing_rate, w=w, g=g, rates=rates)
    parameter = torch.nn.Parameter(torch.tensor(w))
    momentum = like_tf.Momentum([parameter], lr=1.0)
    for grad, rate in zip(g, rates, strict=True):
        parameter.grad = torch.tensor(grad)
        momentum.param_groups[0]["lr"] = rate
        momentum.step()
    assert np.array_equal(parameter.detach().numpy(), want["var"])


def tf_changing_rate(tf, np, session, w, g, rates):
    variable, fed, rate = tf.Variable(w), tf.placeholder(w.dtype, w.shape), tf.placeholder("float32", [])
    train = tf.train.MomentumOptimizer(rate, 0.9).apply_gradients([(fed, variable)])
    with session() as opened:
        for step in range(len(g)):
            opened.run(train, {fed: g[step], rate: rates[step]})
        return {"var": opened.run(variable)}
