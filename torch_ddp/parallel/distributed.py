"""DistributedDataParallel with the arguments and the arithmetic of Apex's."""

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as TorchDDP

from torch_ddp.parallel.delayed import DelayedReduction
from torch_ddp.parallel.errors import ParallelError
from torch_ddp.parallel.flat import Scaling, broadcast_from_first

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
        elements = ONE_BUCKET if delay_allreduce else message_size
        super().__init__(
            module,
            bucket_cap_mb=elements * _element_size(module) / MEBI,
            gradient_as_bucket_view=retain_allreduce_buffers and not delay_allreduce,
            **_no_forward_sync(),  # type: ignore[arg-type]
        )
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
        work = dist.all_reduce(self._scaling.before(flat), async_op=True)
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
    known = inspect.signature(TorchDDP.__init__).parameters
    return {"forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False}
