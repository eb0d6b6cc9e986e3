"""Makes the optimizers that a case describes, and opens any optimizer's slots and counters by name."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from parity.trace import parse_key, select, trace_name
from torch_ddp import like_tf
from torch_ddp.errors import TorchDdpError
from torch_ddp.step.learning_rate import make_schedule
from torch_ddp.step.update import OF_THE_UPDATE

COUNTERS = ("beta1_power", "beta2_power")


def make_optimizer(description: Mapping[str, Any], model: nn.Module, only: Container[str] | None = None) -> Optimizer:
    """Makes an optimizer under TensorFlow 1's rules for the parameters of a model.

    Args:
      description: `name` ("sgd", "momentum", "adam", "rmsprop", "adagrad", "adadelta" or "ftrl"), `learning_rate` (a number,
        or a schedule: see `make_schedule`), and the hyper-parameters that the optimizer has, by TensorFlow's names. What a
        table says of the update around it (see `Update`) is left aside.
      model: already in the dtype that it trains in, since slots take the parameters' dtype.
      only: names of the parameters that it takes; all by default.

    Raises:
      TorchDdpError: the name is another one.

    Counterpart: tf_towers.make_optimizer
    """
    settings = {name: value for name, value in description.items() if name not in OF_THE_UPDATE}
    name = settings.pop("name")
    makers: dict[str, Callable[..., Optimizer]] = {
        "sgd": like_tf.GradientDescent,
        "momentum": like_tf.Momentum,
        "adam": like_tf.Adam,
        "rmsprop": like_tf.RMSProp,
        "adagrad": like_tf.Adagrad,
        "adadelta": like_tf.Adadelta,
        "ftrl": like_tf.Ftrl,
    }
    if name not in makers:
        raise TorchDdpError(f"optimizer: expected one of {', '.join(sorted(makers))}, got {name!r}.")
    rate = settings.pop("learning_rate")
    # The first update's, for an optimizer wants a number; each later one is set before its update.
    rate = make_schedule(rate)(0) if isinstance(rate, Mapping) else rate
    chosen = [parameter for key, parameter in model.named_parameters() if only is None or key in only]
    return makers[name](chosen, lr=rate, **settings)


def hyper_parameters(optimizer: Optimizer) -> dict[str, Any]:
    """Returns the class and the first group's hyper-parameters, as JSON values."""
    found: dict[str, Any] = {"name": f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"}
    for name, value in optimizer.param_groups[0].items():
        if name not in ("params", *COUNTERS) and isinstance(value, bool | int | float | str | tuple | type(None)):
            found[{"lr": "learning_rate"}.get(name, name)] = list(value) if isinstance(value, tuple) else value
    return found


class Float32Beta(float):
    """A decay rate rounded to float32, whose whole powers are multiplied up in float32.

    TensorFlow's Adam keeps ``beta1_power`` and ``beta2_power`` in float32 variables, for float64 weights too, and multiplies
    them by beta after each update. With ``beta ** step`` rounded once, ``1 - 0.999 ** 2`` is off by 1e-5 of itself.
    Source: tensorflow/python/training/adam.py, 1.15.

    Args:
        value: the rate, rounded to float32 here.
    """

    def __new__(cls, value: float) -> "Float32Beta":
        """Rounds the rate."""
        return super().__new__(cls, np.float32(value))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles as what it is."""
        return type(self), (float(self),)

    def __pow__(self, exponent: Any, modulus: None = None) -> Any:
        """Returns a power: a float, or a tensor of the exponent's dtype and shape where that is one."""
        if isinstance(exponent, Tensor):
            if exponent.numel() == 1 and _is_whole(float(exponent)):
                return exponent.new_full(exponent.shape, self._power(int(exponent)), dtype=_dtype_of_power(exponent))
            return torch.pow(float(self), exponent)
        if isinstance(exponent, int | float) and _is_whole(float(exponent)):
            return self._power(int(exponent))
        return float(self) ** exponent

    def _power(self, exponent: int) -> float:
        # Rounded after every product, as the variable is: a step at a time, for as many steps as a run has.
        # Invariant: `power` is beta^(i + 1), rounded i times.
        power = beta = np.float32(self)
        for _ in range(exponent - 1):
            power = power * beta
        return float(power) if exponent else 1.0


def _is_whole(exponent: float) -> bool:
    return exponent >= 0.0 and exponent.is_integer()


def _dtype_of_power(exponent: Tensor) -> torch.dtype:
    return exponent.dtype if exponent.is_floating_point() else torch.get_default_dtype()


# What a graph holds in float32 whatever its weights are.
RATES_OF_RULES = frozenset(["lr", "betas", "beta1", "beta2", "eps", "epsilon", "momentum", "alpha", "rho"])


def round_hyper_parameters(optimizer: Optimizer, exact: Container[float] = ()) -> None:
    """Rounds every hyper-parameter to float32, as TensorFlow's graph holds them.

    Unrounded ones leave 2e-8 (a learning rate of 1e-3) to 1e-5 (a beta of 0.999) in the update: more than rounding, less
    than a bug. Whole powers of betas are the graph's too, `Float32Beta`, and so is the number that an optimizer fills a slot
    with before its first step, as Adagrad its accumulators.

    Args:
      optimizer: whose numbers are replaced.
      exact: numbers that a float64 graph holds in float64, as a limit of clipping: under a name that is none of a rule's
        own they stay as they are.
    """
    # What a class of the port's own keeps as an attribute beside its groups is one too: an epsilon that it scales itself.
    numbers = {name: value for name, value in own_numbers(optimizer).items() if isinstance(value, float)}
    for group in (*optimizer.param_groups, numbers):
        for name, value in group.items():
            # Powers of beta are state, rounded where they are multiplied, and no betas.
            kind = Float32Beta if name.startswith("beta") and name not in COUNTERS else _as_float32
            if isinstance(value, float) and value in exact and name not in RATES_OF_RULES:
                continue
            if isinstance(value, float):
                group[name] = kind(value)
            elif isinstance(value, tuple) and all(isinstance(part, float) for part in value):
                group[name] = tuple(kind(part) for part in value)
    vars(optimizer).update(numbers)
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor) and value.is_floating_point() and value.numel():
                _round_filling(value)


@torch.no_grad()
def _round_filling(slot: Tensor) -> None:
    # One number throughout was written there, and not computed.
    number = slot.reshape(-1)[0].item()
    if bool((slot == number).all()):
        slot.fill_(_as_float32(number))


def _as_float32(value: float) -> float:
    return float(np.float32(value))


def named_slots(optimizer: Optimizer, model: nn.Module) -> dict[tuple[str, str], Tensor]:
    """Returns the optimizer's state per parameter: dict of ``(slot, parameter name)`` to a tensor of its shape.

    The optimizers of torch make their state at the first step; what is known of them is made here already, so that it
    can be read and overwritten before.
    """
    for _, parameter in model.named_parameters():
        for group in optimizer.param_groups:
            if any(parameter is member for member in group["params"]):
                _make_native_state(optimizer, group, parameter)
    return present_slots(optimizer, model)


def present_slots(optimizer: Optimizer, model: nn.Module) -> dict[tuple[str, str], Tensor]:
    """Returns those of `named_slots` that are there already: making them could change the first update of a script."""
    return {
        (slot, name): value
        for name, parameter in model.named_parameters()
        for slot, value in slots_of(optimizer, parameter).items()
    }


def slots_of(optimizer: Optimizer, parameter: Tensor) -> dict[str, Tensor]:
    """Returns dict of name to the tensors of a parameter's shape that an optimizer keeps beside it already."""
    state: Mapping[str, Any] = optimizer.state.get(parameter, {})
    # "step" is a count, which only for a parameter of shape [] has its shape.
    return {
        slot: value
        for slot, value in state.items()
        if isinstance(value, Tensor) and value.shape == parameter.shape and slot != "step"
    }


def named_counters(optimizer: Optimizer) -> dict[str, float]:
    """Returns the optimizer's scalars where it keeps them: `learning_rate`, powers of beta."""
    group = optimizer.param_groups[0]
    counters = {"learning_rate": float(group["lr"])} if "lr" in group else {}  # one of a script's own may have none
    counters.update((name, float(group[name])) for name in COUNTERS if name in group)
    return counters


def set_counters(optimizer: Optimizer, counters: Mapping[str, float]) -> None:
    """Overwrites powers of beta, and from "global_step" the step count that optimizers keep for each parameter."""
    for group in optimizer.param_groups:
        for name in COUNTERS:
            if name in group and name in counters:
                group[name] = float(counters[name])
    for state in optimizer.state.values():
        if isinstance(state.get("step"), Tensor) and "global_step" in counters:
            state["step"].fill_(float(counters["global_step"]))
        elif type(state.get("step")) is int and "global_step" in counters:
            state["step"] = int(counters["global_step"])


def _make_native_state(optimizer: Optimizer, group: dict[str, Any], parameter: nn.Parameter) -> None:
    state = optimizer.state[parameter]
    for slot in _native_slots(optimizer, group):
        if state.get(slot) is None:
            state[slot] = torch.zeros_like(parameter)
            # torch makes slots in an empty state only, and then counts on "step" beside them; SGD has none.
            if slot != "momentum_buffer" and "step" not in state:
                state["step"] = torch.zeros(())


def _native_slots(optimizer: Optimizer, group: dict[str, Any]) -> Iterator[str]:
    if isinstance(optimizer, torch.optim.SGD):
        yield from ["momentum_buffer"] if group["momentum"] else []
    elif isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
        yield from ["exp_avg", "exp_avg_sq"]
        yield from ["max_exp_avg_sq"] if group["amsgrad"] else []
    elif isinstance(optimizer, torch.optim.RMSprop):
        yield "square_avg"
        yield from ["momentum_buffer"] if group["momentum"] else []
        yield from ["grad_avg"] if group["centered"] else []


OF_THE_PART = ("names", "only", "loss")


def own_numbers(optimizer: Optimizer) -> dict[str, int | float]:
    """Returns the numbers that an optimizer keeps as attributes, which its `state_dict` has not: a count of its steps."""
    return {name: value for name, value in vars(optimizer).items() if type(value) in (int, float)}


class OwnNumbers:
    """Brings the numbers that optimizers keep as attributes back to what they are before an update of a given number.

    They are known before the first update, and behind each that was made from a state for which they are known: a port's
    own optimizer that counts its steps has made more of them here than it has in training.

    Args:
      optimizers: before their first step.
    """

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._optimizers = tuple(optimizers)
        self._known = {0: self._read()}
        self._at: int | None = 0

    def go_to(self, updates: int) -> None:
        """Sets them to what they are after so many updates, where that is known."""
        self._at = updates if updates in self._known else None
        for optimizer, numbers in zip(self._optimizers, self._known.get(updates, ()), strict=False):
            vars(optimizer).update(numbers)

    def count(self) -> None:
        """Takes what an update has left."""
        if self._at is not None:
            self._at += 1
            self._known.setdefault(self._at, self._read())

    def _read(self) -> list[dict[str, int | float]]:
        return [own_numbers(optimizer) for optimizer in self._optimizers]


class Part:
    """One more optimizer, beside the first, which has the parameters that no part takes.

    Args:
      name: of the part; what it keeps is recorded under the section of that name.
      description: what `make_optimizer` takes; `names`, the parameters; `loss`, the name of the output, a scalar, that they
        minimise instead of the loss.
      model: what trains.
      rounded: whether hyper-parameters are rounded to float32.

    Attributes:
      optimizer: of these parameters.
      names: theirs.
      loss: name of the output that they minimise, or None.

    Counterpart: tf_towers.Part
    """

    def __init__(self, name: str, description: Mapping[str, Any], model: nn.Module, rounded: bool = False) -> None:
        self.name = name
        self.names = frozenset(description["names"])
        self.loss: str | None = description.get("loss")
        rest = {key: value for key, value in description.items() if key not in OF_THE_PART}
        self.optimizer: Optimizer = make_optimizer(rest, model, self.names)
        if rounded:
            round_hyper_parameters(self.optimizer)
        rate = description.get("learning_rate")
        self._schedule = make_schedule(rate) if isinstance(rate, Mapping) else None
        self._model = model

    def set_rate(self, global_step: int) -> None:
        """Sets the learning rate of the update that follows `global_step` updates."""
        for group in self.optimizer.param_groups if self._schedule else []:
            group["lr"] = self._schedule(global_step)  # type: ignore[misc]

    def slots(self) -> Iterator[tuple[str, Tensor]]:
        """Yields trace name and tensor of every slot."""
        for (slot, name), value in named_slots(self.optimizer, self._model).items():
            yield trace_name("slot", name, slot=slot, section=self.name), value

    def counters(self) -> dict[str, np.ndarray]:
        """Returns learning rate and powers of beta by trace name."""
        return {
            trace_name("state", name, section=self.name): np.array(
                value, np.float32 if name.endswith("_power") else np.float64
            )
            for name, value in named_counters(self.optimizer).items()
        }

    def load_counters(self, state: Mapping[str, Any]) -> None:
        """Overwrites powers of beta from a dict of trace name to value."""
        own = ((parse_key(text), value) for text, value in select(state, "state").items())
        set_counters(self.optimizer, {key.name: float(value) for key, value in own if key.section == self.name})
