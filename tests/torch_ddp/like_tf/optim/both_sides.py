"""The same optimizer on the same gradients under both frameworks, and how far they end apart."""

import numpy as np
import torch

from ..closeness import assert_close, difference


def gradients(seed=0, steps=50, shape=(7, 5)):
    """Returns start values and gradients of sizes from 1e-6 to 1, float64."""
    rng = np.random.RandomState(seed)
    scale = 10.0 ** rng.randint(-6, 1, size=(steps, *[1] * len(shape)))
    return rng.randn(*shape), rng.randn(steps, *shape) * scale


def tf_dense(tf, np, session, w, g, name, hyper, resource):
    variable = tf.Variable(w, use_resource=resource, dtype=w.dtype)
    fed = tf.placeholder(w.dtype, w.shape)
    optimizer = getattr(tf.train, name + "Optimizer")(**hyper)
    train = optimizer.apply_gradients([(fed, variable)])
    with session() as opened:
        for step in range(len(g)):
            opened.run(train, {fed: g[step]})
        slots = {slot: opened.run(optimizer.get_slot(variable, slot)) for slot in optimizer.get_slot_names()}
        return dict(slots, var=opened.run(variable))


def tf_sparse(tf, np, session, w, rows, values, name, hyper, resource):
    variable = tf.Variable(w, use_resource=resource, dtype=w.dtype)
    fed, at = tf.placeholder(w.dtype, values.shape[1:]), tf.placeholder("int64", rows.shape[1:])
    optimizer = getattr(tf.train, name + "Optimizer")(**hyper)
    train = optimizer.apply_gradients([(tf.IndexedSlices(fed, at, tf.constant(w.shape)), variable)])
    with session() as opened:
        for step in range(len(rows)):
            opened.run(train, {fed: values[step], at: rows[step]})
        slots = {slot: opened.run(optimizer.get_slot(variable, slot)) for slot in optimizer.get_slot_names()}
        return dict(slots, var=opened.run(variable))


def torch_dense(make, w, g):
    """Runs ``make([parameter])`` over the gradients and returns the slots and the parameter as ``var``."""
    parameter = torch.nn.Parameter(torch.tensor(w))
    optimizer = make([parameter])
    for grad in g:
        parameter.grad = torch.tensor(grad)
        optimizer.step()
    return {**_slots(optimizer, parameter), "var": parameter.detach().numpy()}


def torch_sparse(make, w, rows, values):
    """As torch_dense, with the gradients of an embedding that looks up ``rows`` and is fed back ``values``."""
    embedding = torch.nn.Embedding(*w.shape, sparse=True, _weight=torch.tensor(w))
    optimizer = make(list(embedding.parameters()))
    for at, value in zip(rows, values, strict=True):
        optimizer.zero_grad()
        embedding(torch.tensor(at)).backward(torch.tensor(value))
        optimizer.step()
    return {**_slots(optimizer, embedding.weight), "var": embedding.weight.detach().numpy()}


def assert_same(got, want, limit):
    """Compares all slots and the variable; TensorFlow's set of slots decides what is compared."""
    assert set(got) == set(want)
    for name in want:
        assert_close(got[name], want[name], limit)


def moved(got, want, start):
    """Returns the difference of the total change of the variable, relative to that of the reference."""
    return difference(got["var"] - start, want["var"] - start)


def lookups(seed=0, steps=30, rows=11, width=3, batch=6):
    """Returns start values, rows looked up (with duplicates, rows 9 and 10 never), and gradients at them."""
    rng = np.random.RandomState(seed)
    return rng.randn(rows, width), rng.randint(0, rows - 2, (steps, batch)), rng.randn(steps, batch, width)


def _slots(optimizer, parameter):
    return {name: optimizer.state[parameter][name].numpy() for name in getattr(optimizer, "slot_names", ())}
