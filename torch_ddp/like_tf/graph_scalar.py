"""Python numbers as a TensorFlow 1 graph holds them."""

import functools

import numpy as np
import torch


def graph_float(value: float) -> float:
    """Rounds a Python number to float32, the dtype that a TensorFlow graph gives to every Python float.

    Hyper-parameters stay float32 whatever the dtype of the variable; the kernel casts them to that dtype afterwards.

    Args:
        value: any finite Python number.

    Returns:
        The nearest float32 as a Python float.
    """
    # Off by 2^-24 of itself at most, and what is computed from it by more: 1 - 0.999 by 1.3e-5.
    return float(np.float32(float(value)))  # a learning rate may be a tensor, on a GPU too


def kernel_scalar(value: float, dtype: torch.dtype) -> torch.Tensor:
    """Returns a hyper-parameter as a training kernel sees it: float32 first, then cast to the variable's dtype.

    Making the tensor costs more than adding a small gradient does, so it is kept, and shared: never change it in place.

    Args:
        value: the hyper-parameter.
        dtype: dtype of the variable that is updated.

    Returns:
        A CPU tensor of shape [] and the given dtype; arithmetic on it rounds as the kernel's does.
    """
    # On the CPU: a tensor of shape [] takes part in arithmetic on any device.
    return _kept(graph_float(value), dtype)


def kernel_float(value: float, dtype: torch.dtype) -> float:
    """Returns a hyper-parameter as a training kernel sees it, as a Python float, which a foreach operation takes.

    Args:
        value: the hyper-parameter.
        dtype: dtype of the variable that is updated.

    Returns:
        The number that ``kernel_scalar`` holds: arithmetic of a tensor with either rounds alike.
    """
    return _kept_float(graph_float(value), dtype)


@functools.lru_cache(maxsize=1024)
def _kept_float(value: float, dtype: torch.dtype) -> float:
    return float(_kept(value, dtype).item())


# 36 microseconds to make one, 6 to add 100 numbers (torch 2.13, a busy CPU), and an optimizer asks for up to five for
# each parameter. Not all are kept: a schedule has another rate in every step.
@functools.lru_cache(maxsize=1024)
def _kept(value: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float32, device="cpu").to(dtype)
