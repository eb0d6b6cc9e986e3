"""Makes the optimizer that a recorded TensorFlow script used, with the learning rates that it had step by step."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torch_ddp import like_tf
from torch_ddp.errors import TorchDdpError
from torch_ddp.like_tf.arguments import accepted_names

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
      model: already in the dtype that it trains in; what is frozen stays out.
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
    # By TensorFlow's names, as the facts have them; the rates of the steps come in the place of theirs.
    known = accepted_names(TWINS[name].__init__) - {"learning_rate"}
    settings = {key: value for key, value in description.items() if key in known}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # In the dtype of the weights, as slots take theirs; rates are float32 numbers of the trace.
    optimizer: Optimizer = TWINS[name](trained, lr=rates[0], **settings)  # type: ignore[call-arg]
    made = 0

    def next_rate(optimizer: Optimizer, arguments: Any, named: Any) -> None:
        nonlocal made
        made += 1
        for group in optimizer.param_groups:
            # After the update, so that the rate which is read between two steps is that of the next one.
            group["lr"] = rates[min(made, len(rates) - 1)]

    optimizer.register_step_post_hook(next_rate)
    return optimizer


def train_only(model: nn.Module, names: Collection[str]) -> nn.Module:
    """Freezes every parameter of a model but those named, as one of a script's several optimizers sees it.

    Returns:
      The model.

    Raises:
      TorchDdpError: a name is no parameter.
    """
    bare = model.module if isinstance(model, DistributedDataParallel) else model
    known = dict(bare.named_parameters())
    missing = sorted(set(names) - set(known))
    if missing:
        raise TorchDdpError(f"replay: expected a parameter named {missing[0]!r}, got none. Fix the mapping.")
    for name, parameter in known.items():
        # Frozen and not left out: DDP waits for a gradient of every parameter that wants one.
        parameter.requires_grad_(name in names)
    return model
