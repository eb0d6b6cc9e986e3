"""Recurrent layers that accept inputs in half beside float32 weights, while the casts of O1 are on."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from torch_ddp.amp.properties import HALF_DTYPES

CAST_ALIKE = {*HALF_DTYPES, torch.float32}


class RecurrentInputs:
    """Wraps `torch.nn.RNNBase.check_input` between `watch` and `release`.

    The layer compares the dtypes of its input and its weights before it reaches the function whose arguments are cast.
    The check is wrapped on the class, so that it also lets pass layers that `initialize` was not given.
    """

    def __init__(self, casting: Callable[[], bool]) -> None:
        """Prepares the wrapper.

        Args:
            casting: asked on the calling thread, whether casts are on.
        """
        self._casting = casting
        self._original: Callable[..., None] | None = None
        self._wrapper: Callable[..., None] | None = None

    def watch(self) -> None:
        """Wraps the check."""
        original, casting = nn.RNNBase.check_input, self._casting

        @wraps(original)  # TorchScript reads the source of what is wrapped
        def check_input(layer: nn.RNNBase, input: Tensor, batch_sizes: Any) -> None:
            weights: Any = layer._flat_weights
            dtypes = {input.dtype, weights[0].dtype}
            if len(dtypes) == 2 and dtypes <= CAST_ALIKE and casting():
                # Its shape is still checked.
                input = torch.empty(input.shape, dtype=weights[0].dtype, device="meta")
            original(layer, input, batch_sizes)

        self._original, self._wrapper = original, check_input
        nn.RNNBase.check_input = check_input  # type: ignore[method-assign,assignment]

    def release(self) -> None:
        """Puts the former check back, unless somebody wrapped ours since: then ours stays and finds the casts off."""
        if self._original is not None and nn.RNNBase.check_input is self._wrapper:
            nn.RNNBase.check_input = self._original  # type: ignore[method-assign]
