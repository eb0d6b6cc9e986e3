"""The update rules of Apex's kernels that keep means of gradients and of their squares: Adam's and LAMB's.

Arguments and roundings are those of `update_rules`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_ddp.apex.tensor_lists import Group, Lists, norms, rounding, widened, write_back


def _powers(
    beta1: float, beta2: float, step: int, corrected: bool, number: Callable[[float], float]
) -> tuple[float, float]:
    # std::pow of a float and an int is a double; what is stored is a float.
    return (number(1.0 - beta1**step), number(1.0 - beta2**step)) if corrected else (1.0, 1.0)


@torch.no_grad()
def multi_tensor_adam(
    chunk_size: int,
    noop_flag: Tensor | None,
    tensor_lists: Lists,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    mode: int,
    bias_correction: int | bool,
    weight_decay: float,
) -> None:
    """Steps by Adam.

    Args:
        chunk_size: no effect.
        noop_flag: no effect, as in Apex: infinities pass on.
        tensor_lists: gradients, weights, and the means of gradients and of their squares.
        lr: learning rate.
        beta1: of the mean of gradients.
        beta2: of the mean of squares.
        epsilon: added to the root.
        step: counts from 1.
        mode: 0 adds the decay to the gradient, 1 to the update (AdamW).
        bias_correction: whether the means are divided by one minus the beta to the step.
        weight_decay: of the weights.

    Source: csrc/multi_tensor_adam.cu, AdamFunctor.
    """
    grads, weights, means, squares = tensor_lists
    number = rounding(weights)
    beta1, beta2 = number(beta1), number(beta2)
    correction1, correction2 = _powers(beta1, beta2, step, bool(bias_correction), number)
    g: Group = widened(grads)
    p, m, v = (widened(tensors) for tensors in (weights, means, squares))
    decay = number(weight_decay)
    if mode == 0 and decay:
        g = torch._foreach_add(g, torch._foreach_mul(p, decay))
    _moments(g, m, v, beta1, number(1 - beta1), beta2, number(1 - beta2))
    roots = torch._foreach_div(v, correction2)
    torch._foreach_sqrt_(roots)
    torch._foreach_add_(roots, number(epsilon))
    updates = torch._foreach_div(m, correction1)
    torch._foreach_div_(updates, roots)
    if mode == 1 and decay:
        torch._foreach_add_(updates, torch._foreach_mul(p, decay))
    torch._foreach_mul_(updates, number(lr))
    torch._foreach_sub_(p, updates)
    for targets, values in ((weights, p), (means, m), (squares, v)):
        write_back(targets, values)


def _moments(
    g: Group, m: list[Tensor], v: list[Tensor], beta1: float, rest1: float, beta2: float, rest2: float
) -> None:
    # m = beta1 m + rest1 g and v = beta2 v + (rest2 g) g, each product rounded.
    torch._foreach_mul_(m, beta1)
    torch._foreach_add_(m, torch._foreach_mul(g, rest1))
    fresh = torch._foreach_mul(g, rest2)
    torch._foreach_mul_(fresh, g)
    torch._foreach_mul_(v, beta2)
    torch._foreach_add_(v, fresh)


def multi_tensor_adam_capturable(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: Tensor,
    mode: int,
    bias_correction: int | bool,
    weight_decay: float,
    inv_scale: Tensor,
) -> None:
    """Steps by Adam with rate, step and loss scale on the device, for CUDA graphs.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1]; where it is 1, nothing changes.
        tensor_lists: gradients, which become unscaled, weights, and the means of gradients and of their squares.
        lr: learning rate, shape [].
        beta1: of the mean of gradients.
        beta2: of the mean of squares.
        epsilon: added to the root.
        step: counts from 1, shape [1].
        mode: 0 adds the decay to the gradient, 1 to the update.
        bias_correction: whether the means are corrected.
        weight_decay: of the weights.
        inv_scale: what gradients are multiplied by, shape [1].

    Source: csrc/multi_tensor_adam.cu, AdamCapturableFunctor.
    """
    multi_tensor_adam_capturable_master(
        chunk_size,
        noop_flag,
        [*tensor_lists, tensor_lists[1]],
        lr,
        beta1,
        beta2,
        epsilon,
        step,
        mode,
        bias_correction,
        weight_decay,
        inv_scale,
    )


@torch.no_grad()
def multi_tensor_adam_capturable_master(
    chunk_size: int,
    noop_flag: Tensor,
    tensor_lists: Lists,
    lr: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: Tensor,
    mode: int,
    bias_correction: int | bool,
    weight_decay: float,
    inv_scale: Tensor,
) -> None:
    """Does as `multi_tensor_adam_capturable`, with a last list of float32 masters that the weights are rounded from.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1]; where it is 1, nothing changes.
        tensor_lists: gradients, weights, means, means of squares, masters.
        lr: learning rate, shape [].
        beta1: of the mean of gradients.
        beta2: of the mean of squares.
        epsilon: added to the root.
        step: counts from 1, shape [1].
        mode: 0 adds the decay to the gradient, 1 to the update.
        bias_correction: whether the means are corrected.
        weight_decay: of the weights.
        inv_scale: what gradients are multiplied by, shape [1].

    Source: csrc/multi_tensor_adam.cu, AdamCapturableMasterFunctor.
    """
    grads, weights, means, squares, masters = tensor_lists
    number = rounding(masters)
    beta1, beta2, decay = number(beta1), number(beta2), number(weight_decay)
    skip = noop_flag.reshape(()) == 1
    dtype = torch.float64 if number is float else torch.float32
    count = step.reshape(()).double()
    one = torch.ones_like(count)
    corrections = [(1 - beta**count if bias_correction else one).to(dtype) for beta in (beta1, beta2)]
    unscaled = [torch.where(skip, old, old * inv_scale.reshape(()).to(old.dtype)) for old in widened(grads)]
    # Out of place, and chosen on the device: an `if` would wait for it.
    g, p, m, v = unscaled, widened(masters), widened(means), widened(squares)
    new_m, new_v = [x.clone() for x in m], [x.clone() for x in v]
    used = torch._foreach_add(g, torch._foreach_mul(p, decay)) if mode == 0 and decay else g
    _moments(used, new_m, new_v, beta1, number(1 - beta1), beta2, number(1 - beta2))
    for index, old in enumerate(p):
        update = (new_m[index] / corrections[0]) / ((new_v[index] / corrections[1]).sqrt() + number(epsilon))
        if mode == 1 and decay:
            update = update + decay * old
        new = torch.where(skip, old, old - lr.reshape(()).to(dtype) * update)
        masters[index].detach().copy_(new)
        if weights[index] is not masters[index]:
            weights[index].detach().copy_(torch.where(skip, weights[index], new))
        means[index].copy_(torch.where(skip, m[index], new_m[index]))
        squares[index].copy_(torch.where(skip, v[index], new_v[index]))
        grads[index].detach().copy_(g[index])


@torch.no_grad()
def multi_tensor_lamb(
    chunk_size: int,
    noop_flag: Tensor | None,
    tensor_lists: Lists,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    bias_correction: int | bool,
    weight_decay: float,
    grad_averaging: int | bool,
    mode: int,
    global_grad_norm: Tensor,
    max_grad_norm: float,
    use_nvlamb: bool = False,
) -> None:
    """Steps by LAMB.

    Args:
        chunk_size: no effect.
        noop_flag: no effect, as in Apex.
        tensor_lists: gradients, weights, and the means of gradients and of their squares. Apex leaves the updates in
            the gradients; here they stay.
        lr: learning rate.
        beta1: of the mean of gradients.
        beta2: of the mean of squares.
        epsilon: added to the root.
        step: counts from 1.
        bias_correction: whether the means are corrected.
        weight_decay: of the weights.
        grad_averaging: whether the gradient counts ``1 - beta1`` in the mean, or 1.
        mode: 0 adds the decay to the gradient, 1 to the update.
        global_grad_norm: over all gradients, shape [1] or [].
        max_grad_norm: gradients are divided by the norm over this where it is larger.
        use_nvlamb: whether weights without decay have their rate adapted too.

    Source: csrc/multi_tensor_lamb.cu.
    """
    grads, weights, means, squares = tensor_lists
    number = rounding(weights)
    beta1, beta2, decay, limit = number(beta1), number(beta2), number(weight_decay), number(max_grad_norm)
    correction1, correction2 = _powers(beta1, beta2, step, bool(bias_correction), number)
    g: Group = widened(grads)
    p, m, v = (widened(tensors) for tensors in (weights, means, squares))
    total = global_grad_norm.reshape(())
    # On the device: an `if` would wait for it.
    g = torch._foreach_div(g, torch.where(total > limit, total / limit, torch.ones_like(total)).to(g[0].dtype))
    if mode == 0 and decay:
        torch._foreach_add_(g, torch._foreach_mul(p, decay))
    _moments(g, m, v, beta1, number(1 - beta1) if grad_averaging else 1.0, beta2, number(1 - beta2))
    roots = torch._foreach_div(v, correction2)
    torch._foreach_sqrt_(roots)
    torch._foreach_add_(roots, number(epsilon))
    updates: Group = torch._foreach_div(m, correction1)
    torch._foreach_div_(updates, roots)
    if mode == 1 and decay:
        torch._foreach_add_(updates, torch._foreach_mul(p, decay))
    rate = number(lr)
    if use_nvlamb or decay:
        # Of half weights the update is rounded to half before its norm is taken, as it lies in the gradient there.
        updates = [update.to(old.dtype).to(update.dtype) for update, old in zip(updates, weights, strict=True)]
        sizes, slopes = norms(weights), norms(updates)
        moves = (sizes != 0) & (slopes != 0)
        ratios = torch.where(moves, rate * (sizes / slopes), torch.full_like(sizes, rate))
        torch._foreach_mul_(updates, list(ratios.to(p[0].dtype).unbind()))
    else:
        updates = [update.to(old.dtype).to(update.dtype) for update, old in zip(updates, weights, strict=True)]
        torch._foreach_mul_(updates, rate)
    torch._foreach_sub_(p, updates)
    for targets, values in ((weights, p), (means, m), (squares, v)):
        write_back(targets, values)
