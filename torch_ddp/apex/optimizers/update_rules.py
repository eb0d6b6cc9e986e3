"""The update rules of Apex's kernels, on torch's foreach kernels, in the order of operations of `csrc/` at 25.04.

Every function takes what the one of `amp_C` takes: a chunk size, which torch chooses itself; an int32 flag; lists of
tensors, which change in place; and the numbers, rounded to float32 as there. Products are rounded before they are
added, where a compiler may join both to one operation on a GPU: that is all that moves a bit, but for the norms, whose
sums have no fixed order on a GPU.
"""

import math

import torch
from torch import Tensor

from torch_ddp.apex.tensor_lists import Group, Lists, norms, rounding, widened, write_back


@torch.no_grad()
def multi_tensor_sgd(
    chunk_size: int,
    noop_flag: Tensor | None,
    tensor_lists: Lists,
    wd: float,
    momentum: float,
    dampening: float,
    lr: float,
    nesterov: bool,
    first_run: bool,
    wd_after_momentum: bool,
    scale: float,
) -> None:
    """Steps by SGD.

    Args:
        chunk_size: no effect.
        noop_flag: int32, shape [1]; where it is not 0, nothing changes. None is 0.
        tensor_lists: gradients, weights, momenta, and perhaps half copies that the weights are rounded into.
        wd: weight decay.
        momentum: of the momenta; 0 leaves them alone.
        dampening: of the gradient in the momenta.
        lr: learning rate.
        nesterov: whether the gradient is looked ahead.
        first_run: whether the momenta become the gradients.
        wd_after_momentum: whether the decay is added behind the momentum.
        scale: what gradients are multiplied by.

    Source: csrc/multi_tensor_sgd_kernel.cu.
    """
    if noop_flag is not None and bool(noop_flag.item()):
        return
    grads, weights, momenta, *copies = tensor_lists
    number = rounding(weights)
    wd, momentum, lr = number(wd), number(momentum), number(lr)
    p, m = widened(weights), widened(momenta)
    # Gradients may be half beside float32 weights.
    g: Group = [grad.to(weight.dtype) for grad, weight in zip(widened(grads), p, strict=True)]
    g = torch._foreach_mul(g, number(scale))
    if wd and not wd_after_momentum:
        torch._foreach_add_(g, torch._foreach_mul(p, wd))
    if momentum:
        if first_run:
            torch._foreach_copy_(m, g)
        else:
            torch._foreach_mul_(m, momentum)
            torch._foreach_add_(m, torch._foreach_mul(g, number(1 - number(dampening))))
        # Without the look ahead the step is the momentum, which must not change with what is added below.
        g = torch._foreach_add(g, torch._foreach_mul(m, momentum)) if nesterov else torch._foreach_mul(m, 1.0)
    if wd and wd_after_momentum:
        torch._foreach_add_(g, torch._foreach_mul(p, wd))
    torch._foreach_add_(p, torch._foreach_mul(g, -lr))
    write_back(weights, p)
    write_back(momenta, m)
    if copies:
        torch._foreach_copy_([copy.detach() for copy in copies[0]], p)


@torch.no_grad()
def multi_tensor_adagrad(
    chunk_size: int,
    noop_flag: Tensor | None,
    tensor_lists: Lists,
    lr: float,
    epsilon: float,
    mode: int,
    weight_decay: float,
) -> None:
    """Steps by Adagrad.

    Args:
        chunk_size: no effect.
        noop_flag: no effect, as in Apex.
        tensor_lists: gradients, weights, sums of squares.
        lr: learning rate.
        epsilon: added to the root.
        mode: 0 adds the decay to the gradient, 1 to the update.
        weight_decay: of the weights.

    Source: csrc/multi_tensor_adagrad.cu.
    """
    grads, weights, sums = tensor_lists
    number = rounding(weights)
    decay = number(weight_decay)
    g: Group = widened(grads)
    p, h = widened(weights), widened(sums)
    if mode == 0 and decay:
        g = torch._foreach_add(g, torch._foreach_mul(p, decay))
    torch._foreach_add_(h, torch._foreach_mul(g, g))
    roots = torch._foreach_sqrt(h)
    torch._foreach_add_(roots, number(epsilon))
    updates = torch._foreach_div(g, roots)
    if mode == 1 and decay:
        torch._foreach_add_(updates, torch._foreach_mul(p, decay))
    torch._foreach_mul_(updates, number(lr))
    torch._foreach_sub_(p, updates)
    write_back(weights, p)
    write_back(sums, h)


@torch.no_grad()
def multi_tensor_novograd(
    chunk_size: int,
    noop_flag: Tensor | None,
    tensor_lists: Lists,
    grad_norms: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    bias_correction: int | bool,
    weight_decay: float,
    grad_averaging: int | bool,
    moment_mode: int,
    norm_type: int,
) -> None:
    """Steps by NovoGrad.

    Args:
        chunk_size: no effect.
        noop_flag: no effect, as in Apex.
        tensor_lists: gradients, weights, means.
        grad_norms: of each gradient, averaged over steps, shape [tensors]; changes in place.
        lr: learning rate.
        beta1: of the means.
        beta2: of the norms.
        epsilon: added to the norm.
        step: counts from 1.
        bias_correction: whether both are corrected.
        weight_decay: of the weights.
        grad_averaging: whether the gradient counts ``1 - beta1`` in the mean, or 1.
        moment_mode: 0 normalises and decays before the mean, 1 behind it.
        norm_type: 2 for the Euclidean norm, 0 for the largest absolute value.

    Source: csrc/multi_tensor_novograd.cu; the norms from csrc/multi_tensor_l2norm_kernel.cu, cleanup_v2.
    """
    grads, weights, means = tensor_lists
    number = rounding(weights)
    beta1, beta2 = number(beta1), number(beta2)
    beta3 = number(1 - beta1) if grad_averaging else 1.0
    correction1, correction2 = 1.0, 1.0
    if bias_correction:
        correction1 = number(1.0 - beta1**step)
        correction2 = number(math.sqrt(1.0 - beta2**step))
    g: Group = widened(grads)
    p, m = widened(weights), widened(means)
    _blend_norms(g, grad_norms, beta2, number(1 - beta2), norm_type)
    decay, eps = number(weight_decay), number(epsilon)
    # Shape [] each.
    denominators = list((grad_norms / correction2 + eps).to(p[0].dtype).unbind())
    if moment_mode == 0:
        g = torch._foreach_div(g, denominators)
        if decay:
            torch._foreach_add_(g, torch._foreach_mul(p, decay))
    torch._foreach_mul_(m, beta1)
    torch._foreach_add_(m, torch._foreach_mul(g, beta3))
    updates = torch._foreach_div(m, correction1)
    if moment_mode == 1:
        torch._foreach_div_(updates, denominators)
        if decay:
            torch._foreach_add_(updates, torch._foreach_mul(p, decay))
    torch._foreach_mul_(updates, number(lr))
    torch._foreach_sub_(p, updates)
    write_back(weights, p)
    write_back(means, m)


def _blend_norms(g: Group, averaged: Tensor, beta: float, rest: float, norm_type: int) -> None:
    if norm_type == 0:
        largest = torch.stack(torch._foreach_norm(g, math.inf)).to(averaged.dtype)
        averaged.copy_(beta * averaged + rest * largest)
    else:
        squares = norms(g).to(averaged.dtype).square()
        averaged.copy_((beta * averaged * averaged + rest * squares).sqrt())
