from functools import partial

import numpy as np
import pytest
import torch

from torch_ddp import like_tf

from ..closeness import assert_close
from .both_sides import assert_same, gradients, lookups, moved, torch_dense, torch_sparse

# Numbers that float32 holds: the proximal optimizers take no Python number beside a float64 variable.
L1_L2 = {"l1_regularization_strength": 2.0**-7, "l2_regularization_strength": 2.0**-5}
# Name in TensorFlow, where it is, its arguments but the rate, those of this side where they are named otherwise.
CASES = {
    "LazyAdam": ("contrib.opt", {"beta2": 0.99, "epsilon": 1e-4}, None),
    "Nadam": ("contrib.opt", {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-4}, None),
    "AdamW": ("contrib.opt", {"weight_decay": 0.003, "epsilon": 1e-4}, None),
    "MomentumW": ("contrib.opt", {"weight_decay": 0.003, "momentum": 0.9}, None),
    "MomentumW, Nesterov": ("contrib.opt", {"weight_decay": 0.003, "momentum": 0.9, "use_nesterov": True}, None),
    "LARS": ("contrib.opt", {"weight_decay": 0.003, "eeta": 0.7}, None),
    "LARS, Nesterov": ("contrib.opt", {"momentum": 0.7, "eeta": 0.7, "epsilon": 0.1, "use_nesterov": True}, None),
    "LARS, skipped": ("contrib.opt", {"skip_list": [""]}, {"scaled": False}),
    "ProximalGradientDescent": ("train", {}, None),
    "ProximalGradientDescent, l1 and l2": ("train", L1_L2, None),
    "ProximalAdagrad": ("train", {"initial_accumulator_value": 0.3}, None),
    "ProximalAdagrad, l1 and l2": ("train", L1_L2, None),
    "AdagradDA": ("train", {"initial_gradient_squared_accumulator_value": 0.3}, None),
    "AdagradDA, l1 and l2": ("train", L1_L2, None),
}
ON_BOTH = [case for case, (module, _, _) in CASES.items() if module == "train"]
# TensorFlow alone has a rate that float32 does not hold, unrounded, for dense LARS; for a sparse gradient it is rounded.
RATE = 0.125


def tf_optimizers(tf, np, session, cases, rate, w, g, rows, values, resource):
    """Runs every case with dense gradients and with sparse ones, all in one graph."""
    fed, at, part = (
        tf.placeholder(w.dtype, w.shape),
        tf.placeholder("int64", rows.shape[1:]),
        tf.placeholder(w.dtype, values.shape[1:]),
    )
    feeds = [{fed: g[i], at: rows[i], part: values[i]} for i in range(len(g))]
    step, trained, found = tf.train.create_global_step(), [], {}
    for case, (module, hyper, _) in cases.items():
        if module == "contrib.opt":
            from tensorflow.contrib import opt as home
        else:
            home = tf.train
        name = case.split(",")[0]
        for kind in ("dense", "sparse"):
            variable = tf.Variable(w, use_resource=resource, dtype=w.dtype)
            gradient = fed if kind == "dense" else tf.IndexedSlices(part, at, tf.constant(w.shape))
            more = {"global_step": step} if name == "AdagradDA" else {}
            given = dict(hyper, learning_rate=rate, **more)
            if name.startswith("Proximal"):
                strengths = {"l1_regularization_strength": 0.0, "l2_regularization_strength": 0.0}
                given = {key: np.float64(value) for key, value in dict(strengths, **given).items()}
            optimizer = getattr(home, name + "Optimizer")(**given)
            trained.append(optimizer.apply_gradients([(gradient, variable)]))
            found[case + "/" + kind + "/var"] = variable
            for slot in optimizer.get_slot_names():
                found[case + "/" + kind + "/" + slot] = optimizer.get_slot(variable, slot)
    with tf.control_dependencies(trained):
        train = tf.assign_add(step, 1)
    with session() as opened:
        for feed in feeds:
            opened.run(train, feed)
        return opened.run(found)


def _inputs():
    w, rows, values = lookups(steps=30)
    _, g = gradients(seed=1, steps=30, shape=w.shape)
    return {"w": w, "g": g, "rows": rows, "values": values}


@pytest.fixture(scope="module")
def answers():
    return {}


def _ask(answers, tf, names, resource):
    # One request for all cases: what it costs is the graph.
    key = (id(tf), resource)
    if key not in answers:
        answers[key] = tf(tf_optimizers, cases={n: CASES[n] for n in names}, rate=RATE, resource=resource, **_inputs())
    return answers[key]


def _compare(case, want):
    _, hyper, own = CASES[case]
    given = _inputs()
    make = partial(getattr(like_tf, case.split(",")[0]), lr=RATE, **(hyper if own is None else own))
    got = {
        "dense": torch_dense(make, given["w"], given["g"]),
        "sparse": torch_sparse(make, given["w"], given["rows"], given["values"]),
    }
    for kind in got:
        expected = {name.rsplit("/", 1)[1]: x for name, x in want.items() if name.startswith(f"{case}/{kind}/")}
        assert "var" in expected
        assert_same(got[kind], expected, 1e-12)
        assert moved(got[kind], expected, given["w"]) < 1e-11


@pytest.mark.tf1
@pytest.mark.both_tensorflows
@pytest.mark.parametrize("resource", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["ref", "resource"])
@pytest.mark.parametrize("case", CASES)
def test_thirty_steps_dense_and_sparse_end_where_contrib_ends(tf1, answers, case, resource):
    _compare(case, _ask(answers, tf1, CASES, resource))


@pytest.mark.parametrize("case", ON_BOTH)
def test_what_tensorflow_2_still_has_ends_where_it_ends(tf2, answers, case):
    _compare(case, _ask(answers, tf2, ON_BOTH, True))


def tf_lamb(tf, np, session, w, g, rate, decay, scaled):
    """The lines of lamb_optimizer.py of google-research/albert, for one variable."""
    variable, m, v = tf.Variable(w), tf.Variable(np.zeros_like(w)), tf.Variable(np.zeros_like(w))
    grad = tf.placeholder(w.dtype, w.shape)

    def held(number):  # tf.multiply makes a float32 constant of a Python number
        return tf.cast(tf.constant(number, tf.float32), w.dtype)

    next_m = tf.multiply(held(0.9), m) + tf.multiply(held(1.0 - 0.9), grad)
    next_v = tf.multiply(held(0.999), v) + tf.multiply(held(1.0 - 0.999), tf.square(grad))
    update = next_m / (tf.sqrt(next_v) + held(1e-6))
    if decay:
        update += held(decay) * variable
    ratio = 1.0
    if scaled:
        w_norm, u_norm = tf.norm(variable, ord=2), tf.norm(update, ord=2)
        one = tf.constant(1.0, w.dtype)
        ratio = tf.where(tf.greater(w_norm, 0), tf.where(tf.greater(u_norm, 0), w_norm / u_norm, one), one)
    update_with_lr = ratio * held(rate) * update
    with tf.control_dependencies([update_with_lr]):
        train = tf.group(variable.assign(variable - update_with_lr), m.assign(next_m), v.assign(next_v))
    with session() as opened:
        for grads in g:
            opened.run(train, {grad: grads})
        return opened.run({"var": variable, "m": m, "v": v})


@pytest.mark.parametrize(("decay", "scaled"), [(0.01, True), (0.0, True), (0.01, False)])
def test_lamb_is_the_one_that_scripts_carry_along(tf2, decay, scaled):
    w, g = gradients(steps=20)
    want = tf2(tf_lamb, w=w, g=g, rate=0.1, decay=decay, scaled=scaled)
    got = torch_dense(partial(like_tf.LAMB, lr=0.1, weight_decay=decay, scaled=scaled), w, g)
    assert_same(got, want, 1e-13)


@pytest.mark.parametrize("make", [like_tf.LARS, partial(like_tf.LAMB, weight_decay=0.1)])
def test_weights_or_gradients_of_length_0_have_the_ratio_1_and_no_nan(make):
    zero, still = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.ones(3))
    optimizer = make([zero, still], lr=0.5)
    zero.grad, still.grad = torch.ones(3), torch.zeros(3)
    optimizer.step()
    assert torch.isfinite(zero).all()
    assert torch.isfinite(still).all()
    assert (zero < 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(like_tf.LARS, lr=0.1, momentum=-0.1), r"^LARS: expected momentum >= 0, got -0.1"),
        (partial(like_tf.LARS, lr=0.1, weight_decay=-0.5), r"^LARS: expected weight_decay >= 0, got -0.5"),
        (partial(like_tf.ProximalAdagrad, lr=0.1, initial_accumulator_value=0.0), "accumulator_value > 0, got 0.0"),
        (partial(like_tf.ProximalGradientDescent, lr=0.1, l1_regularization_strength=-1.0), "l1_.* >= 0, got -1.0"),
        (
            partial(like_tf.AdagradDA, lr=0.1, initial_gradient_squared_accumulator_value=-0.5),
            r"^AdagradDA: expected initial_gradient_squared_accumulator_value > 0, got -0.5",
        ),
        (partial(like_tf.Adam, eps=1e-3, epsilon=1e-3), r"^Adam: expected one of eps and epsilon, got both"),
    ],
)
def test_values_that_tensorflow_refuses_are_refused_here(make, message):
    with pytest.raises(like_tf.LikeTfError, match=message):
        make([torch.nn.Parameter(torch.ones(2))])


def test_lamb_refuses_a_sparse_gradient():
    parameter = torch.nn.Parameter(torch.ones(3, 2))
    parameter.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (3, 2), check_invariants=True)
    with pytest.raises(like_tf.LikeTfError, match="LAMB: expected a dense gradient"):
        like_tf.LAMB([parameter], lr=0.1).step()


NAMES = {
    "GradientDescent": ({"lr": 0.1}, {"learning_rate": 0.1}),
    "Momentum": ({"lr": 0.1, "nesterov": True}, {"learning_rate": 0.1, "use_nesterov": True}),
    "Adam": ({"lr": 0.1, "betas": (0.8, 0.9), "eps": 0.1}, {"lr": 0.1, "beta1": 0.8, "beta2": 0.9, "epsilon": 0.1}),
    "RMSProp": ({"lr": 0.1, "alpha": 0.7, "eps": 0.1}, {"lr": 0.1, "decay": 0.7, "epsilon": 0.1}),
    "Adadelta": ({"lr": 0.1, "eps": 0.1}, {"learning_rate": 0.1, "epsilon": 0.1}),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of_group", [False, True])
def test_torchs_names_and_tensorflows_say_the_same_in_constructors_and_groups(name, of_group):
    ends = []
    for arguments in NAMES[name]:
        parameters = [torch.nn.Parameter(torch.ones(2, dtype=torch.float64))]
        group, rest = (
            ({"params": parameters, **arguments}, {"lr": 0.5}) if of_group else ({"params": parameters}, arguments)
        )
        optimizer = getattr(like_tf, name)([group], **rest)
        for _ in range(3):
            parameters[0].grad = torch.tensor([0.5, -2.0], dtype=torch.float64)
            optimizer.step()
        ends.append(parameters[0].detach().numpy())
    assert np.array_equal(*ends)


@pytest.mark.tf1
def test_torchs_own_decay_and_nesterov_end_elsewhere(tf1, answers, semantics):
    want, given = _ask(answers, tf1, CASES, False), _inputs()
    for case, make, tensorflow, plain, names in (
        (
            "AdamW",
            partial(torch.optim.AdamW, lr=RATE, weight_decay=0.003, eps=1e-4),
            "`w -= weight_decay * w` before the update",
            "`w -= lr * weight_decay * w`, epsilon after the correction",
            "AdamW, MomentumW",
        ),
        (
            "Nadam",
            partial(torch.optim.NAdam, lr=RATE, betas=(0.8, 0.99), eps=1e-4),
            "`beta1 * m + (1 - beta1) * g` in the place of m, one correction",
            "`NAdam`: a schedule of the momentum, two corrections",
            "Nadam",
        ),
        (
            "ProximalAdagrad, l1 and l2",
            partial(torch.optim.Adagrad, lr=RATE, initial_accumulator_value=0.1),
            "l1 and l2 in closed form after the step",
            "`Adagrad`: neither",
            "ProximalAdagrad, ProximalGradientDescent, AdagradDA",
        ),
        (
            "LARS",
            partial(torch.optim.SGD, lr=RATE, momentum=0.9, weight_decay=0.003),
            "each parameter's rate by the ratio of its length to that of its gradient, inside the momentum",
            "`SGD` with momentum and decay",
            "LARS, LAMB",
        ),
    ):
        expected = {"var": want[f"{case}/dense/var"]}
        off = moved(torch_dense(make, given["w"], given["g"]), expected, given["w"])
        assert off > 1e-3
        semantics(f"{case.split(',')[0]}, change of the weights after 30 steps", tensorflow, plain, off, names)
    lazy = torch_sparse(
        partial(torch.optim.SparseAdam, lr=RATE, betas=(0.9, 0.99), eps=1e-4),
        *(given[k] for k in ("w", "rows", "values")),
    )
    off = moved(lazy, {"var": want["LazyAdam/sparse/var"]}, given["w"])
    assert off > 1e-9
    semantics(
        "LazyAdam, gradient of an embedding",
        "touched rows alone, hyper-parameters rounded to float32",
        "`SparseAdam`: the same rule, not rounded",
        off,
        "LazyAdam",
    )
    assert_close(want["LazyAdam/sparse/var"][9:], given["w"][9:], 0.0)
