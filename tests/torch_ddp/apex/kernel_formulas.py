"""The formulas of Apex's kernels (csrc/ at 25.04), written out in numpy, one weight at a time.

With `dtype` float32 each operation rounds as in a kernel that joins no product to a sum; with float64 they are the
values that those stand for. The numbers are rounded to float32 in either case where `rounded` is set.
"""

import numpy as np
import torch


class Numbers:
    """Rounds the arguments of a kernel as its signature does."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __call__(self, number):
        return self.dtype(number)

    def root(self, x):
        # torch's: on a CPU, by the vector library of its maker, the last bit may be another than numpy's. The kernels'
        # own roots and quotients are approximate, for they are compiled with --use_fast_math.
        return torch.from_numpy(np.asarray(x)).sqrt().numpy()

    def powers(self, beta1, beta2, step, corrected):
        if not corrected:
            return self.dtype(1), self.dtype(1)
        return self.dtype(1 - float(beta1) ** step), self.dtype(1 - float(beta2) ** step)


def adam(n, g, p, m, v, *, lr, betas, eps, step, w_mode, correct, decay):
    lr, beta1, beta2, eps, decay = map(n, (lr, *betas, eps, decay))
    one = n(1)
    correction1, correction2 = n.powers(beta1, beta2, step, correct)
    if not w_mode:
        g = g + decay * p
    m = beta1 * m + (one - beta1) * g
    v = beta2 * v + (one - beta2) * g * g
    update = (m / correction1) / (n.root(v / correction2) + eps)
    if w_mode:
        update = update + decay * p
    return p - lr * update, m, v


def sgd(n, g, p, m, *, lr, momentum, dampening, decay, nesterov, first, late_decay):
    lr, momentum, dampening, decay = map(n, (lr, momentum, dampening, decay))
    if decay and not late_decay:
        g = g + decay * p
    if momentum:
        m = g if first else m * momentum + (n(1) - dampening) * g
        g = g + momentum * m if nesterov else m
    if decay and late_decay:
        g = g + decay * p
    return p + -lr * g, m


def adagrad(n, g, p, h, *, lr, eps, w_mode, decay):
    lr, eps, decay = map(n, (lr, eps, decay))
    if not w_mode:
        g = g + decay * p
    h = h + g * g
    update = g / (n.root(h) + eps)
    if w_mode:
        update = update + decay * p
    return p - lr * update, h


def novograd(n, g, p, m, norm, *, lr, betas, eps, step, inside, averaging, correct, decay):
    """With the norm, averaged over steps already."""
    lr, beta1, beta2, eps, decay = map(n, (lr, *betas, eps, decay))
    beta3 = n(1) - beta1 if averaging else n(1)
    correction1, correction2 = n(1), n(1)
    if correct:
        correction1 = n(1 - float(beta1) ** step)
        correction2 = n(np.sqrt(1 - float(beta2) ** step))
    denominator = norm / correction2 + eps
    if inside:
        g = g / denominator + decay * p
        m = beta1 * m + beta3 * g
        return p - lr * (m / correction1), m
    m = beta1 * m + beta3 * g
    return p - lr * ((m / correction1) / denominator + decay * p), m


def blended(n, old, fresh, beta2, norm_type):
    beta2 = n(beta2)
    rest = n(1) - beta2
    if norm_type == 0:
        return beta2 * old + rest * fresh
    return np.sqrt(beta2 * old * old + rest * (fresh * fresh))


def lamb_update(n, g, p, m, v, total, *, betas, eps, step, w_mode, averaging, correct, decay, limit):
    beta1, beta2, eps, decay, limit = map(n, (*betas, eps, decay, limit))
    one = n(1)
    correction1, correction2 = n.powers(beta1, beta2, step, correct)
    g = g / (total / limit if total > limit else one)
    if not w_mode:
        g = g + decay * p
    m = m * beta1 + (one - beta1 if averaging else one) * g
    v = v * beta2 + (one - beta2) * g * g
    update = (m / correction1) / (n.root(v / correction2) + eps)
    return update + decay * p if w_mode else update, m, v


def lamb_ratio(n, size, slope, *, lr, decay, nvlamb):
    lr = n(lr)
    if (nvlamb or decay) and size != 0 and slope != 0:
        return lr * (size / slope)
    return lr
