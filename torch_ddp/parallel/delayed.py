"""Reduces all gradients at once when a backward pass is done."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.autograd import Variable

from torch_ddp.parallel.flat import Scaling, all_reduce, gradients, views


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
        if self._reduces() and not self._queued:
            self._queued = True
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
