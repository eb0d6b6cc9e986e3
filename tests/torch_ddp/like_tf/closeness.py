"""How far two arrays are apart, on the scale of the reference."""

import numpy as np
import torch


def difference(got, want) -> float:
    """Returns the largest absolute difference over the largest absolute value of ``want``; shapes must agree."""
    got, want = (x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in (got, want))
    assert got.shape == want.shape, (got.shape, want.shape)
    scale = np.abs(want).max()
    return float(np.abs(got.astype(np.float64) - want).max() / (scale if scale else 1.0))


def assert_close(got, want, limit: float) -> None:
    """Fails when the difference is above ``limit``, or anything is not finite."""
    measured = difference(got, want)
    assert measured <= limit, f"difference {measured:.2e}, allowed {limit:.0e}"
