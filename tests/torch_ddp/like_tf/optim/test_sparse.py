from functools import partial

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from .both_sides import assert_same, lookups, moved, tf_sparse, torch_dense, torch_sparse

CASES = {
    "GradientDescent": ("GradientDescent", {}),
    "Momentum": ("Momentum", {"momentum": 0.9}),
    "Nesterov": ("Momentum", {"momentum": 0.9, "use_nesterov": True}),
    "Adam": ("Adam", {}),
    "RMSProp": ("RMSProp", {"momentum": 0.7}),
    "RMSProp centered": ("RMSProp", {"centered": True, "epsilon": 1e-6}),
    "Adagrad": ("Adagrad", {}),
    "Adadelta": ("Adadelta", {}),
    "Ftrl": ("Ftrl", {}),
    "Ftrl with l1 and l2": ("Ftrl", {"l1_regularization_strength": 0.01, "l2_regularization_strength": 0.03}),
    "Ftrl with shrinkage": ("Ftrl", {"l2_shrinkage_regularization_strength": 0.07}),
}
LAZY = ["Momentum", "RMSProp", "Adadelta", "Ftrl"]


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("case", CASES)
def test_thirty_sparse_steps_in_float64_end_where_tensorflow_ends(tf, case, resource):
    name, hyper = CASES[case]
    w, rows, values = lookups()
    # A rate that float32 holds exactly: TensorFlow 1.15 does not round that of sparse descent on resource variables.
    hyper_tf = {"learning_rate": 0.125, **hyper}
    want = tf(tf_sparse, w=w, rows=rows, values=values, name=name, hyper=hyper_tf, resource=resource)
    got = torch_sparse(partial(getattr(like_tf, name), lr=0.125, **hyper), w, rows, values)
    assert_same(got, want, 1e-13)


@pytest.mark.parametrize("name", [*LAZY, "Adam"])
def test_a_dense_gradient_is_another_update_for_the_lazy_optimizers_alone(tf2, semantics, name):
    w, rows, values = lookups()
    hyper = CASES[name][1]
    want = tf2(
        tf_sparse, w=w, rows=rows, values=values, name=name, hyper={"learning_rate": 0.125, **hyper}, resource=False
    )
    dense = torch.zeros(len(rows), *w.shape, dtype=torch.float64)
    for grad, at, value in zip(dense, rows, values, strict=True):
        grad.index_add_(0, torch.tensor(at), torch.tensor(value))
    got = torch_dense(partial(getattr(like_tf, name), lr=0.125, **hyper), w, dense.numpy())
    off = moved(got, want, w)
    if name == "Adam":
        assert off < 1e-13
        lazy = torch_sparse(partial(torch.optim.SparseAdam, lr=0.125), w, rows, values)
        off = moved(lazy, want, w)
        rule, form = "all rows move, as with a dense gradient", "`SparseAdam` moves the touched rows"
    else:
        rule, form = "rows that were not looked up keep weights and slots", "a dense gradient moves all rows"
    assert off > 1e-3
    semantics(f"{name}, gradient of an embedding", rule, form, off, name)


@pytest.mark.tf1
def test_tensorflow_1_alone_does_not_round_the_rate_of_sparse_descent_on_resource_variables(tf1):
    w, rows, values = lookups()
    fixed = {"w": w, "rows": rows, "values": values, "name": "GradientDescent", "hyper": {"learning_rate": 0.1}}
    got = torch_sparse(partial(like_tf.GradientDescent, lr=0.1), w, rows, values)
    assert moved(got, tf1(tf_sparse, resource=False, **fixed), w) < 1e-14
    unrounded = torch_sparse(partial(torch.optim.SGD, lr=0.1), w, rows, values)
    want = tf1(tf_sparse, resource=True, **fixed)
    assert moved(unrounded, want, w) < 1e-14
    assert moved(got, want, w) > 1e-9


def test_rows_never_looked_up_stay_under_momentum_and_move_under_dense_momentum():
    w, rows, values = lookups()
    got = torch_sparse(partial(like_tf.Momentum, lr=0.1), w, rows, values)
    assert (got["var"][9:] == w[9:]).all()
    assert (got["var"][:9] != w[:9]).all()


@pytest.mark.parametrize("case", CASES)
def test_a_sparse_gradient_of_every_row_once_is_the_dense_gradient(case):
    name, hyper = CASES[case]
    w, _, values = lookups(rows=11, batch=11)
    rows = np.stack([np.random.RandomState(step).permutation(11) for step in range(len(values))])
    dense = np.stack([value[np.argsort(at)] for at, value in zip(rows, values, strict=True)])
    make = partial(getattr(like_tf, name), lr=0.125, **hyper)
    assert_same(torch_sparse(make, w, rows, values), torch_dense(make, w, dense), 1e-14)


def test_a_gradient_sparse_in_two_axes_is_refused():
    parameter = torch.nn.Parameter(torch.zeros(3, 2))
    parameter.grad = torch.ones(3, 2).to_sparse()
    with pytest.raises(like_tf.LikeTfError, match="sparse in axis 0 alone, got sparse_dim 2"):
        like_tf.Momentum([parameter], lr=0.1).step()
