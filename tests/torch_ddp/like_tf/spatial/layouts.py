"""TensorFlow's layouts of images and kernels to torch's and back, and a weighting that makes a scalar of an output."""

import numpy as np
import torch


def channels_first(x):
    """[batch, *space, channels] to a torch leaf [batch, channels, *space]."""
    return torch.tensor(np.ascontiguousarray(np.moveaxis(x, -1, 1)), requires_grad=True)


def channels_last(x):
    """The inverse, to numpy."""
    return np.moveaxis(x.detach().numpy(), 1, -1)


def kernel_first(w):
    """[*kernel, in, out] to a torch leaf [out, in, *kernel]."""
    return torch.tensor(np.ascontiguousarray(np.moveaxis(w, (-1, -2), (0, 1))), requires_grad=True)


def kernel_last(w):
    """The inverse, to numpy."""
    return np.moveaxis(w.detach().numpy(), (0, 1), (-1, -2))


def weighted(y):
    """The sum of a channels-first output times the cosines of its channels-last positions: a loss with any gradient."""
    last = torch.movedim(y, 1, -1)
    return (last * torch.cos(torch.arange(last.numel(), dtype=last.dtype)).reshape(last.shape)).sum()
