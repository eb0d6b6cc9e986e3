"""Makes the optimizer that a recorded TensorFlow script used, with the learning rates that it had step by step."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from torch_ddp import like_tf
from torch_ddp.errors import TorchDdpError

TWINS: dict[str, type[Optimizer]] = {
    "GradientDescentOptimizer": like_tf.GradientDescent,
    "MomentumOptimizer": like_tf.Momentum,
    "AdamOptimizer": like_tf.Adam,
    "RMSPropOptimizer": like_tf.RMSProp,
    "AdagradOptimizer": like_tf.Adagrad,
    "AdadeltaOptimizer": like_tf.Adadelta,
    "FtrlOptimizer": like_tf.Ftrl,
}


def recorded_optimizer(model: nn.Module, description: Mapping[str, Any], rates: Sequence[float]) -> Optimizer:
    """Makes the twin of a recorded optimizer.

    Args:
      model: already in the dtype that it trains in.
      description: `name`, the class in TensorFlow, and its hyper-parameters, as a trace has them in its facts.
      rates: learning rate of each step; the last one goes on.

    Raises:
      TorchDdpError: there is no twin of that class.
    """
    name = description["name"]
    if name not in TWINS:
        raise TorchDdpError(
            f"replay: expected a recorded optimizer among {', '.join(sorted(TWINS))}, got {name}. "
            "Name your port's own with --optimizer MODULE:FUNCTION."
        )
    known = inspect.signature(TWINS[name]).parameters
    settings = {key: value for key, value in description.items() if key in known}
    optimizer: Optimizer = TWINS[name](model.parameters(), lr=rates[0], **settings)  # type: ignore[call-arg]
    made = 0

    def next_rate(optimizer: Optimizer, arguments: Any, named: Any) -> None:
        nonlocal made
        made += 1
        for group in optimizer.param_groups:
            group["lr"] = rates[min(made, len(rates) - 1)]

    optimizer.register_step_post_hook(next_rate)
    return optimizer
