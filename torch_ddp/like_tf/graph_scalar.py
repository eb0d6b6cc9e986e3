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
    return float(np.float32(value))


def kernel_scalar(value: float, dtype: torch.dtype) -> torch.Tensor:
    """Returns a hyper-parameter as a training kernel sees it: float32 first, then cast to the variable's dtype.

    Making the tensor costs more than adding a small gradient does, so it is kept, and shared: never change it in place.

    Args:
        value: the hyper-parameter.
        dtype: dtype of the variable that is updated.

    Returns:
        A CPU tensor of shape [] and the given dtype; arithmetic on it rounds as the kernel's does.
    """
    return _kept(graph_float(value), dtype)


@functools.lru_cache(maxsize=1024)
def _kept(value: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float32, device="cpu").to(dtype)
