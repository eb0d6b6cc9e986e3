"""Porting bugs, planted in a right port: runs inside the torch side, in the place of the port.

A mutation takes the port apart (a model's class, a loss, a way to make the optimizer) and returns it with one bug in it. Its
`size` is what the bug is off by where it has a size: 1 is the plain form, 1e-3 a thousandth of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Port:
    """A port, taken apart.

    Attributes:
      model: makes the module.
      loss: ``loss(model, **inputs)``.
      optimizer: makes the optimizer of a module.
    """

    model: Callable[[], nn.Module]
    loss: Callable[..., Any]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]


class Mutation(NamedTuple):
    """A bug that can be planted.

    Fields:
      name: its identifier.
      family: what it concerns.
      plant: ``plant(port, size)`` returns the port with the bug.
      causes: the names of causes that say what it is.
      first: the quantities that it can show in first.
      needs: what a net must have for the bug to exist: "conv", "batch_norm", "relu", "square", "momentum", "adam", "images".
      sized: whether `size` says by how much it is off.
    """

    name: str
    family: str
    plant: Callable[[Port, float], Port]
    causes: tuple[str, ...]
    first: tuple[str, ...]
    needs: tuple[str, ...]
    sized: bool


MUTATIONS: dict[str, Mutation] = {}


def mutation(
    family: str, causes: str = "", first: str = "", needs: str = "", sized: bool = False
) -> Callable[[Callable[[Port, float], Port]], Callable[[Port, float], Port]]:
    """Registers a function as a mutation; lists are words."""

    def register(plant: Callable[[Port, float], Port]) -> Callable[[Port, float], Port]:
        name = plant.__name__
        if name in MUTATIONS:
            raise ValueError(f"mutation: expected a new name, got {name!r} again.")
        MUTATIONS[name] = Mutation(
            name, family, plant, tuple(causes.split()), tuple(first.split()), tuple(needs.split()), sized
        )
        return plant

    return register


# --- what the mutations are made of


def with_gradients(port: Port, change: Callable[[Tensor, nn.Parameter, str], Tensor]) -> Port:
    """Changes every local gradient as soon as it is there: ``change(gradient, parameter, name)``."""

    def model() -> nn.Module:
        made = port.model()
        for name, parameter in made.named_parameters():
            parameter.register_hook(lambda gradient, p=parameter, n=name: change(gradient, p, n))
        return made

    return replace(port, model=model)


def with_loss(port: Port, change: Callable[[Tensor, nn.Module, dict[str, Tensor]], Tensor]) -> Port:
    """Changes the loss alone: ``change(loss, model, inputs)``."""

    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        returned = port.loss(model, **inputs)
        value, outputs = returned if isinstance(returned, tuple) else (returned, {})
        return change(value, model, inputs), outputs

    return replace(port, loss=loss)


def with_inputs(port: Port, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Port:
    """Changes what the rank is fed."""
    return replace(port, loss=lambda model, **inputs: port.loss(model, **change(inputs)))


def around_step(port: Port, before: Callable[[Any], Any], after: Callable[[Any, Any], None] | None = None) -> Port:
    """Runs ``before(optimizer)`` and ``after(optimizer, what before returned)`` around the optimizer's step."""

    def make(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = port.optimizer(model)
        step = optimizer.step

        def changed(closure: Any = None) -> Any:
            kept = before(optimizer)
            result = step()
            if after is not None:
                after(optimizer, kept)
            return result

        optimizer.step = changed  # type: ignore[method-assign]
        return optimizer

    return replace(port, optimizer=make)


def with_modules(port: Port, kind: Any, change: Callable[[Any], None], only_first: bool = False) -> Port:
    """Changes the modules of a kind once they are made: all of them, or the first."""

    def model() -> nn.Module:
        made = port.model()
        found = [module for module in made.modules() if isinstance(module, kind)]
        for module in found[:1] if only_first else found:
            change(module)
        return made

    return replace(port, model=model)


def ranks() -> tuple[int, int]:
    """Returns this rank and their number."""
    return dist.get_rank(), dist.get_world_size()


def of_all_ranks(value: Tensor) -> list[Tensor]:
    """Returns every rank's tensor; all of one shape."""
    pieces = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, value.contiguous())
    return pieces


def parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Returns all parameters that have a gradient."""
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def set_hyper(optimizer: torch.optim.Optimizer, **values: Any) -> None:
    """Overwrites hyper-parameters in every group."""
    for group in optimizer.param_groups:
        group.update(values)


def with_optimizer(port: Port, change: Callable[[torch.optim.Optimizer], None]) -> Port:
    """Changes the optimizer once it is made."""

    def make(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = port.optimizer(model)
        change(optimizer)
        return optimizer

    return replace(port, optimizer=make)


# --- how gradients are put together


@mutation("aggregation", "some_towers", "tower_grad grad")
def only_the_last_rank_counts(port: Port, size: float) -> Port:
    def change(gradient: Tensor, parameter: nn.Parameter, name: str) -> Tensor:
        rank, world = ranks()
        return gradient * (world if rank == world - 1 else 0)

    return with_gradients(port, change)


@mutation("aggregation", "some_towers", "tower_grad grad")
def the_first_rank_counts_for_nothing(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient * (0 if ranks()[0] == 0 else 1))


@mutation("aggregation", "some_towers", "tower_grad grad", sized=True)
def the_last_rank_counts_more(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient * (1 + size if ranks()[0] == ranks()[1] - 1 else 1))


@mutation("aggregation", "gradient_factor", "tower_grad grad")
def divided_by_the_world_twice(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient / ranks()[1])


@mutation("aggregation", "gradient_factor", "loss tower_grad grad", sized=True)
def loss_divided_by_the_wrong_count(port: Port, size: float) -> Port:
    return with_loss(port, lambda loss, model, inputs: loss / (1 + size))


@mutation("aggregation", "not_shared", "tower_grad grad var")
def gradients_of_ranks_are_not_shared(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        with model.no_sync():
            return port.loss(model, **inputs)

    return replace(port, loss=loss)


@mutation("aggregation", "zero_gradient", "tower_grad grad")
def a_layer_is_cut_off_from_the_gradient(port: Port, size: float) -> Port:
    def model() -> nn.Module:
        made = port.model()
        next(made.parameters()).register_hook(torch.zeros_like)
        return made

    return replace(port, model=model)


@mutation("aggregation", "gradient_factor", "tower_grad grad", sized=True)
def one_layer_learns_faster(port: Port, size: float) -> Port:
    def model() -> nn.Module:
        made = port.model()
        next(made.parameters()).register_hook(lambda gradient: gradient * (1 + size))
        return made

    return replace(port, model=model)


# --- what ranks are fed


@mutation("data", "other_shard", "act loss")
def every_rank_reads_the_first_shard(port: Port, size: float) -> Port:
    return with_inputs(port, lambda inputs: {name: of_all_ranks(value)[0] for name, value in inputs.items()})


@mutation("data", "other_shard", "act loss")
def shards_in_reverse(port: Port, size: float) -> Port:
    return with_inputs(
        port, lambda inputs: {name: of_all_ranks(value)[-1 - ranks()[0]] for name, value in inputs.items()}
    )


@mutation("data", "order_of_examples", "act loss")
def shards_interleaved(port: Port, size: float) -> Port:
    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        rank, world = ranks()
        return {name: torch.cat(of_all_ranks(value))[rank::world] for name, value in inputs.items()}

    return with_inputs(port, change)


@mutation("data", "stale_batch", "act loss")
def the_batch_of_the_step_before(port: Port, size: float) -> Port:
    kept: dict[tuple[torch.dtype, ...], dict[str, Tensor]] = {}

    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        precision = tuple(value.dtype for value in inputs.values())
        before = kept.get(precision, inputs)
        kept[precision] = inputs
        return before

    return with_inputs(port, change)


@mutation("data", "input_scale", "act loss", sized=True)
def inputs_scaled(port: Port, size: float) -> Port:
    def change(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {n: v * (1 + size) if v.is_floating_point() and v.ndim > 1 else v for n, v in inputs.items()}

    return with_inputs(port, change)


@mutation("data", "transposed_input", "act loss", needs="images")
def images_transposed(port: Port, size: float) -> Port:
    return with_inputs(
        port, lambda inputs: {n: v.transpose(1, 2).contiguous() if v.ndim == 4 else v for n, v in inputs.items()}
    )


@mutation("data", "labels_shifted", "loss", needs="classes")
def labels_off_by_one(port: Port, size: float) -> Port:
    return with_inputs(
        port, lambda inputs: {n: (v + 1) % 10 if not v.is_floating_point() else v for n, v in inputs.items()}
    )


# --- the loss


@mutation("loss", "loss_reduction", "loss")
def the_loss_is_a_sum_over_examples(port: Port, size: float) -> Port:
    return with_loss(port, lambda loss, model, inputs: loss * len(next(iter(inputs.values()))))


@mutation("loss", "loss_scale", "loss tower_grad")
def the_loss_scale_stays_in(port: Port, size: float) -> Port:
    return with_loss(port, lambda loss, model, inputs: loss * 1024)


@mutation("loss", "weight_decay", "loss", sized=True)
def weights_decay_in_the_loss(port: Port, size: float) -> Port:
    def change(loss: Tensor, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        return loss + 1e-2 * size * sum(p.square().sum() / 2 for p in model.parameters() if p.ndim > 1)

    return with_loss(port, change)


@mutation("loss", "weight_decay", "loss", sized=True)
def biases_decay_too(port: Port, size: float) -> Port:
    def change(loss: Tensor, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        return loss + 1e-2 * size * sum(p.square().sum() / 2 for p in model.parameters() if p.ndim == 1)

    return with_loss(port, change)


@mutation("loss", "cross_entropy", "loss", needs="classes", sized=True)
def labels_smoothed(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        _, outputs = port.loss(model, **inputs)
        return F.cross_entropy(outputs["logits"], inputs["labels"].long(), label_smoothing=0.1 * size), outputs

    return replace(port, loss=loss)


@mutation("loss", "cross_entropy", "loss", needs="classes")
def softmax_twice(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        _, outputs = port.loss(model, **inputs)
        return F.cross_entropy(outputs["logits"].softmax(1), inputs["labels"].long()), outputs

    return replace(port, loss=loss)


# --- the net


@mutation("net", "rectifier", "act loss", needs="relu", sized=True)
def leaky_rectifier(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        plain = F.relu
        try:
            F.relu = lambda x, inplace=False: F.leaky_relu(x, 0.01 * size)  # type: ignore[assignment]
            return port.loss(model, **inputs)
        finally:
            F.relu = plain  # type: ignore[assignment]

    return replace(port, loss=loss)


@mutation("net", "dropout_active", "act loss", needs="relu")
def dropout_nobody_asked_for(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        plain = F.relu
        try:
            F.relu = lambda x, inplace=False: F.dropout(plain(x), 0.25)  # type: ignore[assignment]
            return port.loss(model, **inputs)
        finally:
            F.relu = plain  # type: ignore[assignment]

    return replace(port, loss=loss)


@mutation("net", "activation_function", "act loss", needs="relu")
def smooth_rectifier(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        plain = F.relu
        try:
            F.relu = lambda x, inplace=False: F.gelu(x)  # type: ignore[assignment]
            return port.loss(model, **inputs)
        finally:
            F.relu = plain  # type: ignore[assignment]

    return replace(port, loss=loss)


@mutation("net", "border", "act loss", needs="conv")
def reflecting_border(port: Port, size: float) -> Port:
    def change(conv: nn.Conv2d) -> None:
        conv.padding_mode = "reflect"

    return with_modules(port, nn.Conv2d, change, only_first=True)


@mutation("net", "", "act loss", needs="conv")
def padding_on_one_side(port: Port, size: float) -> Port:
    def change(conv: nn.Conv2d) -> None:
        top, left = conv.padding  # type: ignore[misc]
        conv.register_forward_pre_hook(
            lambda module, args: (F.pad(args[0], (left - 1, left + 1, top - 1, top + 1)),)  # type: ignore[operator]
        )
        conv.padding = (0, 0)

    return with_modules(port, nn.Conv2d, change, only_first=True)


@mutation("net", "pooling", "act loss", needs="conv")
def average_for_the_largest(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        plain = F.max_pool2d
        try:
            F.max_pool2d = lambda x, kernel: F.avg_pool2d(x, kernel)  # type: ignore[assignment]
            return port.loss(model, **inputs)
        finally:
            F.max_pool2d = plain  # type: ignore[assignment]

    return replace(port, loss=loss)


@mutation("net", "bias_missing", "act loss", sized=True)
def a_bias_is_not_added(port: Port, size: float) -> Port:
    def change(module: nn.Module) -> None:
        module.register_forward_hook(lambda m, args, out: out - size * m.bias)

    return with_modules(port, nn.Linear, change, only_first=True)


@mutation("net", "reduced_precision", "act loss tower_grad grad")
def a_layer_in_bfloat16(port: Port, size: float) -> Port:
    def change(module: nn.Module) -> None:
        module.register_forward_hook(lambda m, args, out: out.bfloat16().to(out.dtype))

    return with_modules(port, nn.Linear, change, only_first=True)


@mutation("net", "reduced_precision", "tower_grad grad")
def gradients_travel_in_float16(port: Port, size: float) -> Port:
    return with_gradients(port, lambda gradient, p, n: gradient.half().to(gradient.dtype))


# --- batch norm


def _norms(port: Port, change: Callable[[Any], None]) -> Port:
    return with_modules(port, nn.modules.batchnorm._BatchNorm, change)


def _decay(norm: Any, decay: float) -> None:
    # torch_ddp.like_tf keeps TensorFlow's decay beside torch's momentum.
    norm.momentum = norm.decay = decay


@mutation("batch norm", "normalisation", "act loss", needs="batch_norm", sized=True)
def another_epsilon_of_batch_norm(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: setattr(norm, "eps", norm.eps * (1 + size)))


@mutation("batch norm", "batch_norm_momentum", "stat", needs="batch_norm")
def torchs_default_momentum(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: _decay(norm, 0.1))


@mutation("batch norm", "batch_norm_momentum", "stat", needs="batch_norm", sized=True)
def another_decay_of_statistics(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: _decay(norm, norm.momentum * (1 + size)))


@mutation("batch norm", "normalisation", "act loss", needs="batch_norm")
def batch_norm_in_evaluation_mode(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: setattr(norm, "train", lambda mode=True: norm) or nn.Module.train(norm, False))


@mutation("batch norm", "statistics_frozen", "stat", needs="batch_norm")
def statistics_never_move(port: Port, size: float) -> Port:
    return _norms(port, lambda norm: _decay(norm, 0.0))


@mutation("batch norm", "statistics_of_another_tower", "stat", needs="batch_norm")
def statistics_of_the_last_rank(port: Port, size: float) -> Port:
    def loss(model: nn.Module, **inputs: Tensor) -> Any:
        returned = port.loss(model, **inputs)
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name.endswith(("running_mean", "running_var")):
                    buffer.copy_(of_all_ranks(buffer)[-1])
        return returned

    return replace(port, loss=loss)


# --- the update


@mutation("optimizer", "learning_rate", "state var", sized=True)
def another_learning_rate(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> list[float]:
        rates = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= 1 + size
        return rates

    def after(optimizer: Any, rates: list[float]) -> None:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    return around_step(port, before, after)


@mutation("optimizer", "weight_decay", "slot var", sized=True)
def weights_decay_in_the_optimizer(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            p.grad = p.grad + 1e-2 * size * p.detach()

    return around_step(port, before)


@mutation("optimizer", "weight_decay", "var", sized=True)
def weights_decay_beside_the_update(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        with torch.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.mul_(1 - group["lr"] * 1e-2 * size)

    return around_step(port, before)


@mutation("optimizer", "clipping", "slot var")
def clipped_by_global_norm(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        found = parameters(optimizer)
        norm = torch.stack([p.grad.norm() for p in found]).norm()
        for p in found:
            p.grad = p.grad * (0.5 * norm / norm.clamp(min=1e-30)) / norm.clamp(min=1e-30)

    return around_step(port, before)


@mutation("optimizer", "clipping", "slot var")
def clipped_by_value(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            p.grad = p.grad.clamp(-0.3 * float(p.grad.abs().max()), 0.3 * float(p.grad.abs().max()))

    return around_step(port, before)


@mutation("optimizer", "not_updated", "slot var")
def a_parameter_nobody_gave_the_optimizer(port: Port, size: float) -> Port:
    def change(optimizer: torch.optim.Optimizer) -> None:
        optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][1:]

    return with_optimizer(port, change)


@mutation("optimizer", "stale_gradient", "tower_grad")
def gradients_are_never_cleared(port: Port, size: float) -> Port:
    def change(optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]

    return with_optimizer(port, change)


@mutation("optimizer", "sign", "slot var")
def uphill(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            p.grad = -p.grad

    return around_step(port, before)


@mutation("optimizer", "momentum", "slot", needs="momentum", sized=True)
def another_momentum(port: Port, size: float) -> Port:
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, momentum=0.9 - 0.4 * size))


@mutation("optimizer", "nesterov", "var", needs="momentum")
def nesterov_nobody_asked_for(port: Port, size: float) -> Port:
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, use_nesterov=True))


@mutation("optimizer", "momentum", "slot", needs="momentum")
def dampened_momentum(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for p in parameters(optimizer):
            p.grad = p.grad * 0.1

    return around_step(port, before)


@mutation("optimizer", "adam_beta", "slot", needs="adam", sized=True)
def another_beta1(port: Port, size: float) -> Port:
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, beta1=0.9 - 0.4 * size))


@mutation("optimizer", "adam_beta", "slot", needs="adam", sized=True)
def another_beta2(port: Port, size: float) -> Port:
    return with_optimizer(port, lambda optimizer: set_hyper(optimizer, beta2=0.999 - 0.009 * size))


@mutation("optimizer", "adam_epsilon adam_epsilon_placement", "var", needs="adam")
def adam_of_torch(port: Port, size: float) -> Port:
    def make(model: nn.Module) -> torch.optim.Optimizer:
        group = port.optimizer(model).param_groups[0]
        return torch.optim.Adam(
            model.parameters(), lr=group["lr"], betas=(group["beta1"], group["beta2"]), eps=group["epsilon"]
        )

    return replace(port, optimizer=make)


@mutation("optimizer", "adam_epsilon", "var", needs="adam", sized=True)
def another_epsilon_of_adam(port: Port, size: float) -> Port:
    def change(optimizer: torch.optim.Optimizer) -> None:
        set_hyper(optimizer, epsilon=optimizer.param_groups[0]["epsilon"] * (1 + 9 * size))

    return with_optimizer(port, change)


@mutation("optimizer", "bias_correction", "var", needs="adam")
def adam_without_bias_correction(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> list[tuple[float, float]]:
        powers = [(group["beta1_power"], group["beta2_power"]) for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["beta1_power"] = group["beta2_power"] = 0.0
        return powers

    def after(optimizer: Any, powers: list[tuple[float, float]]) -> None:
        for group, (first, second) in zip(optimizer.param_groups, powers, strict=True):
            group["beta1_power"], group["beta2_power"] = first * group["beta1"], second * group["beta2"]

    return around_step(port, before, after)


@mutation("optimizer", "slot_reset", "slot", needs="momentum")
def slots_forgotten_in_every_step(port: Port, size: float) -> Port:
    def before(optimizer: Any) -> None:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()

    return around_step(port, before)
