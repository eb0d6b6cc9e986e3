"""Apex's DistributedDataParallel and Reducer: flat buckets, one message per dtype, reduction delayed where asked for."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from torch_ddp.amp.options import HALF_DTYPES
from torch_ddp.parallel.errors import ParallelError


class Scaling(NamedTuple):
    """How Apex scales a gradient around the all-reduce.

    Fields:
      average: whether to divide by the number of ranks; otherwise the sum over the ranks, divided by `predivide`, stays.
      predivide: what each rank divides by before the sum; the rest of the division follows after it.
      always_fp32: whether half precision is summed in float32.

    Source: allreduce_bucket in apex/parallel/distributed.py, 25.04.
    """

    average: bool = True
    predivide: float = 1.0
    always_fp32: bool = False

    def before(self, flat: Tensor) -> Tensor:
        """Returns what goes into the sum: `flat` itself, scaled in place, or a float32 copy."""
        # Before predivide, so that this division does not round in half.
        sent = flat.float() if self.always_fp32 and flat.dtype in HALF_DTYPES else flat
        return sent if self.predivide == 1.0 else sent.mul_(1.0 / self.predivide)

    def after(self, summed: Tensor, flat: Tensor) -> Tensor:
        """Scales what comes out of the sum, and returns it as `flat`; sparse, as a gradient of its own in its dtype."""
        if self.average:
            # After the sum, as Apex: with float16 gradients of 40000 on two ranks the sum is infinite, where torch's
            # order, before it, gives 40000. allreduce_always_fp32 or a predivide factor is what Apex offers against
            # that.
            summed.mul_(self.predivide / dist.get_world_size())
        if flat.is_sparse:
            return summed.coalesce().to(flat.dtype)  # of other rows; a future on a GPU asks for its indices
        return flat if summed is flat else flat.copy_(summed)


def flatten(tensors: Iterable[Tensor]) -> list[tuple[list[Tensor], Tensor]]:
    """Returns the tensors by dtype and device, each group with a flat copy of itself, shape [elements]."""
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise ParallelError(
                f"flatten: expected dense gradients, got one of layout {tensor.layout}. Use Embedding(sparse=False)."
            )
        # In the order of the model, the same on all ranks: messages are matched by order alone.
        groups.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    return [(group, torch.cat([tensor.reshape(-1) for tensor in group])) for group in groups.values()]


def views(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns the parts of a flat buffer in the shapes of the tensors it was made of."""
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


@torch.no_grad()
def broadcast_from_first(tensors: Iterable[Tensor]) -> None:
    """Overwrites the tensors with those of rank 0."""
    for group, flat in flatten(tensor.detach() for tensor in tensors):
        dist.broadcast(flat, 0)
        for tensor, new in zip(group, views(flat, group), strict=True):
            tensor.copy_(new)


@torch.no_grad()
def all_reduce(tensors: Iterable[Tensor], scaling: Scaling) -> list[Tensor]:
    """Reduces the tensors in place over all ranks, one all-reduce per dtype, and returns the flat results."""
    flats = []
    for group, flat in flatten(tensors):
        sent = scaling.before(flat)
        dist.all_reduce(sent)
        scaling.after(sent, flat)
        for tensor, new in zip(group, views(flat, group), strict=True):
            tensor.copy_(new)
        flats.append(flat)
    return flats


def gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Returns the gradients of those parameters that any rank has a gradient of, zeros where this one has none.

    Apex sends what is there, and mixes up or waits for ever where the ranks differ.

    Args:
      parameters: the same ones in the same order on every rank.
    """
    if not parameters:
        return []
    # int32 [parameters], 1 where this rank has one; the maximum over ranks says where any has.
    used = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.int32)
    used = used.to(parameters[0].device)
    dist.all_reduce(used, dist.ReduceOp.MAX)
    for parameter, anywhere in zip(parameters, used.tolist(), strict=True):
        if anywhere and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


class DelayedReduction:
    """Reduces a model's gradients at the end of each backward pass that reaches one of its parameters.

    Args:
      module: the model.
      scaling: around the all-reduce.
      retain: whether gradients become views of the flat buffers.
      reduces: asked in each backward pass whether it reduces; all ranks have to answer alike.

    Attributes:
      retained: flat reduced gradients of the last backward, one per dtype, shape [elements]; empty without `retain`.
    """

    def __init__(self, module: nn.Module, scaling: Scaling, retain: bool, reduces: Callable[[], bool]) -> None:
        self._parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._scaling = scaling
        self._retain = retain
        self._reduces = reduces
        self._queued = False
        self.retained: list[Tensor] = []
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._arrived)  # type: ignore[no-untyped-call]
        # A backward that raised has dropped its callback.
        module.register_forward_pre_hook(self._forget)

    def _arrived(self, parameter: Tensor) -> None:
        # Once per backward pass: the first gradient that arrives queues the reduction of all.
        if self._reduces() and not self._queued:
            self._queued = True
            # Called when the whole backward pass is done: only then are all gradients final, however often a weight
            # was used.
            Variable._execution_engine.queue_callback(self._reduce)

    def _forget(self, *arguments: object) -> None:
        self._queued = False

    def _reduce(self) -> None:
        if not self._queued:  # a forward during backward made a second callback
            return
        self._queued = False
        found = gradients(self._parameters)
        flats = all_reduce(found, self._scaling)
        if self._retain:
            self.retained = flats
            self._keep_views(found)

    def _keep_views(self, found: list[Tensor]) -> None:
        for flat in self.retained:
            group = [gradient for gradient in found if (gradient.dtype, gradient.device) == (flat.dtype, flat.device)]
            for gradient, view in zip(group, views(flat, group), strict=True):
                gradient.data = view


MEBI = 2.0**20
ONE_BUCKET = 2.0**40  # elements, more than any model has


class DistributedDataParallel(TorchDDP):
    """Reduces gradients over all ranks during backward, called and scaled as Apex's wrapper is.

    It is torch's DistributedDataParallel with a communication hook: ``module``, the names in ``state_dict`` and ``no_sync``
    are torch's. As with Apex, and unlike torch's own, gradients are divided after the sum, parameters (and here buffers as
    well) are taken from rank 0 once, and buffers are each rank's own from then on.

    Args:
      module: the model, on the device it trains on.
      message_size: elements at which a bucket is sent; at least 1.
      delay_allreduce: whether to reduce everything when backward is done, one bucket per dtype, also where a parameter
        got no gradient or the model was not called through the wrapper.
      shared_param: refused, as Apex does.
      allreduce_trigger_params: no effect.
      retain_allreduce_buffers: whether gradients are views of the flat buffers in `allreduce_buffers`.
      allreduce_always_fp32: whether half precision is summed in float32.
      num_allreduce_streams: no effect.
      allreduce_communicators: no effect.
      gradient_average: whether to average; otherwise gradients are summed.
      gradient_predivide_factor: what gradients are divided by before the sum; positive. The rest of the average follows
        after it; a sum stays divided.
      gradient_average_split_factor: no effect, as in Apex.
      prof: no effect.

    Raises:
      ParallelError: what Apex refuses, too.

    Warns:
      UserWarning: for arguments without effect.

    Counterpart: apex.parallel.DistributedDataParallel
    """

    def __init__(
        self,
        module: nn.Module,
        message_size: int = 10_000_000,
        delay_allreduce: bool = False,
        shared_param: Any = None,
        allreduce_trigger_params: Iterable[Tensor] | None = None,
        retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False,
        num_allreduce_streams: int = 1,
        allreduce_communicators: Any = None,
        gradient_average: bool = True,
        gradient_predivide_factor: float = 1.0,
        gradient_average_split_factor: float | None = None,
        prof: bool = False,
    ) -> None:
        tuning = {
            "allreduce_trigger_params": allreduce_trigger_params is not None,
            "num_allreduce_streams": num_allreduce_streams != 1,
            "allreduce_communicators": allreduce_communicators is not None,
            "gradient_average_split_factor": gradient_average_split_factor is not None,
            "prof": prof,
        }
        _refuse_what_apex_refuses(delay_allreduce, shared_param, tuning, num_allreduce_streams, allreduce_communicators)
        _check_numbers(message_size, gradient_predivide_factor)
        _warn_of_no_effect([name for name, given in tuning.items() if given])
        # Apex counts elements, torch MiB: 10,000,000 of float32 are 38 MiB, where torch's own default is 25.
        elements = ONE_BUCKET if delay_allreduce else message_size
        super().__init__(
            module,
            bucket_cap_mb=elements * _element_size(module) / MEBI,
            # With a delay the views are made by hand, of buffers that DDP does not have.
            gradient_as_bucket_view=retain_allreduce_buffers and not delay_allreduce,
            **_no_forward_sync(),  # type: ignore[arg-type]
        )
        # Once, and never again: Apex does not broadcast buffers at all, and later each rank's are its own there too.
        broadcast_from_first(module.buffers())
        self._scaling = Scaling(gradient_average, gradient_predivide_factor, allreduce_always_fp32)
        self._retain = retain_allreduce_buffers
        self._retained: dict[int, Tensor] = {}
        self._enabled = True
        self._delayed: DelayedReduction | None = None
        self._arrived: set[int] | None = None
        if delay_allreduce:
            self._delayed = DelayedReduction(module, self._scaling, retain_allreduce_buffers, self._reduces)
        else:
            self.register_comm_hook(None, self._hook)
            for parameter in module.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(self._arrive)  # type: ignore[no-untyped-call]

    @property
    def allreduce_buffers(self) -> list[Tensor]:
        """Flat reduced gradients of the last backward, shape [elements] each; empty unless they are to be retained."""
        if self._delayed is not None:
            return self._delayed.retained
        return [self._retained[index] for index in sorted(self._retained)]

    def enable_allreduce(self) -> None:
        """Reduces gradients again, from the next backward on."""
        self._enabled = True

    def disable_allreduce(self) -> None:
        """Leaves gradients this rank's own, from the next backward on; all ranks have to."""
        self._enabled = False

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Calls the model."""
        self._retained = {}
        if self._delayed is not None:
            return self.module(*inputs, **kwargs)
        if torch.is_grad_enabled():
            self._arrived = set()
        return super().forward(*inputs, **kwargs)  # type: ignore[no-untyped-call]

    def _reduces(self) -> bool:
        return bool(self._enabled and self.require_backward_grad_sync)

    def _arrive(self, parameter: Tensor) -> None:
        # torch reduces once per forward of the wrapper, and says nothing when it does not.
        if self._reduces() and (self._arrived is None or id(parameter) in self._arrived):
            raise ParallelError(
                "DistributedDataParallel: expected one backward after each call of the wrapper, got another, whose "
                "gradients would stay this rank's own. Call the wrapper, not its module, add losses up, or set "
                "delay_allreduce=True."
            )
        if self._arrived is not None:
            self._arrived.add(id(parameter))

    def _hook(self, state: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
        flat = bucket.buffer()
        if not self._enabled:
            done: torch.futures.Future[Tensor] = torch.futures.Future()
            done.set_result(flat)
            return done
        if self._retain:
            self._retained[bucket.index()] = flat
        sent = self._scaling.before(flat)
        # gloo asks a sparse tensor of a GPU for its indices, which one refuses that may have rows twice, as one multiplied.
        work = dist.all_reduce(sent.coalesce() if sent.is_sparse else sent, async_op=True)
        summed: torch.futures.Future[list[Tensor]] = work.get_future()
        return summed.then(lambda future: self._scaling.after(future.value()[0], flat))


def _refuse_what_apex_refuses(
    delay: bool, shared_param: Any, tuning: dict[str, bool], streams: int, communicators: Any
) -> None:
    if shared_param is not None:
        raise ParallelError(
            "DistributedDataParallel: expected no shared_param, got one. Leave it out: shared parameters need nothing."
        )
    for name in ("allreduce_trigger_params", "num_allreduce_streams"):
        if delay and tuning[name]:
            raise ParallelError(
                f"DistributedDataParallel: expected {name} or delay_allreduce, got both. Leave out {name}."
            )
    if communicators and not (streams > 1 and all(len(part) == streams for part in communicators)):
        raise ParallelError(
            "DistributedDataParallel: expected allreduce_communicators to be num_allreduce_streams > 1 groups and as "
            f"many streams, got {[len(part) for part in communicators]} for {streams}. Leave both out."
        )


def _check_numbers(message_size: int, predivide: float) -> None:
    if message_size < 1:
        raise ParallelError(
            f"DistributedDataParallel: expected message_size of at least 1 element, got {message_size}. Leave it out."
        )
    if not predivide > 0:
        raise ParallelError(
            f"DistributedDataParallel: expected a positive gradient_predivide_factor, got {predivide}. Leave it out."
        )


def _warn_of_no_effect(names: list[str]) -> None:
    if names:
        warnings.warn(
            f"DistributedDataParallel: {', '.join(names)} without effect: torch overlaps communication and computation by "
            "itself. Leave out, and tune message_size if need be.",
            stacklevel=3,
        )


def _element_size(module: nn.Module) -> int:
    return max((parameter.element_size() for parameter in module.parameters() if parameter.requires_grad), default=4)


def _no_forward_sync() -> dict[str, bool]:
    # torch 2.13 renamed the argument; before, it also switched off taking the buffers from rank 0 once.
    # Asked and not compared by version: passing the old name warns on 2.13, and the new one is a TypeError before.
    known = inspect.signature(TorchDDP.__init__).parameters
    return {"forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False}


class Reducer:
    """Averages the gradients of a model over all ranks, each time `reduce` is called and only then.

    Args:
      module_or_grads_list: a model, whose parameters all ranks then take from rank 0; or tensors to average, in
        iterables nested in any way.

    Raises:
      ParallelError: neither a model nor tensors.

    Counterpart: apex.parallel.Reducer
    """

    def __init__(self, module_or_grads_list: Any) -> None:
        self.module = module_or_grads_list if isinstance(module_or_grads_list, nn.Module) else None
        self.grads: list[Tensor] = []
        if self.module is not None:
            broadcast_from_first(self.module.parameters())
            return
        self.grads = _tensors(module_or_grads_list)
        if not self.grads:
            raise ParallelError(
                f"Reducer: expected a module or tensors, got {type(module_or_grads_list).__name__} without a tensor. "
                "Give the model, or its gradients after backward()."
            )

    def reduce(self) -> None:
        """Averages in place; every rank has to call it."""
        found = self.grads if self.module is None else gradients(list(self.module.parameters()))
        all_reduce(found, Scaling(average=False))
        for gradient in found:  # divided, where the wrapper multiplies by the reciprocal: so does Apex
            gradient.detach().div_(dist.get_world_size())


def _tensors(nested: Any) -> list[Tensor]:
    if isinstance(nested, Tensor):
        return [nested]
    if isinstance(nested, str) or not hasattr(nested, "__iter__"):
        return []
    return [tensor for part in nested for tensor in _tensors(part)]
