"""The part that all optimizers share: slots named as TensorFlow names them, made before the first step."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from torch_ddp.like_tf.arguments import renamed
from torch_ddp.like_tf.errors import LikeTfError
from torch_ddp.like_tf.graph_scalar import graph_float
from torch_ddp.like_tf.optim.pieces import Tensors, pieces


class SlotOptimizer(torch.optim.Optimizer):
    """Updates parameters under TensorFlow 1 rules (abstract).

    A slot is ``state[parameter][slot name]``, a tensor with the shape and dtype of the parameter; it is there before
    the first step and may be read and overwritten at any time.

    Every hyper-parameter is rounded to float32, as the graph holds it. ``param_group["lr"]`` may be changed between
    steps and is rounded when it is used. A parameter without a gradient is left alone; when no parameter has one,
    ``step`` changes nothing at all, where TensorFlow refuses to build the graph.

    Attributes:
        in_variable_dtype: the hyper-parameters that TensorFlow casts to the variable's dtype without float32 between.
        elementwise: whether an element's update depends on the numbers at its own place alone.
        further_names: torch's names, and others, for hyper-parameters whose key in a group is another one.
    """

    in_variable_dtype: frozenset[str] = frozenset()
    elementwise = True
    further_names: ClassVar[Mapping[str, str]] = {"learning_rate": "lr", "eps": "epsilon"}

    def __init__(self, params: ParamsT, lr: float, **hyper: Any) -> None:
        super().__init__(params, self._rounded({"lr": lr, **hyper}))

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The names of the slots, in the order in which TensorFlow makes them."""
        return ()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters and makes its slots.

        Args:
            param_group: ``{"params": parameters}`` and hyper-parameters that differ from the constructor's.

        Raises:
            LikeTfError: a hyper-parameter of the group is impossible.
        """
        group = renamed(type(self).__name__, param_group, dict(self.further_names))
        if "betas" in group:
            group["beta1"], group["beta2"] = group.pop("betas")
        super().add_param_group(self._rounded(group))
        self._check(self.param_groups[-1])
        self.init_slots()

    def init_slots(self) -> None:
        """Makes the slots that are not there yet, with TensorFlow's initial values."""
        for group in self.param_groups:
            for param in group["params"]:
                for slot in self.slot_names:
                    if slot not in self.state[param]:
                        value = self._initial_slot_value(slot, group)
                        # In the strides of the parameter, channels last for one: updates then run over both without a
                        # copy.
                        self.state[param][slot] = torch.full_like(
                            param, value, memory_format=torch.preserve_format, requires_grad=False
                        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Applies one update from the gradients in ``parameter.grad``, dense or sparse COO.

        Args:
            closure: recomputes the loss, as in torch.optim.

        Returns:
            What the closure returned, or None.

        Raises:
            LikeTfError: a gradient is sparse in another way than the first axis.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._apply_gradients()
        return loss

    def _apply_gradients(self) -> None:
        # All gradients are taken before the first update, so that whether a step does anything is known before it
        # begins.
        pairs = [(g, p, p.grad) for g in self.param_groups for p in g["params"] if p.grad is not None]
        for group in self.param_groups:
            dense: dict[tuple[torch.dtype, torch.device], list[Tensors]] = {}
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.layout is torch.sparse_coo:
                    self._apply_merged(param, grad, group)
                else:
                    slots = self.state[param]
                    row = (param, grad, *(slots[name] for name in self.slot_names))
                    dense.setdefault((param.dtype, param.device), []).append(row)
            for rows in dense.values():
                for piece in pieces(rows) if self.elementwise else ([row] for row in rows):
                    self._apply_rows(piece, group)
        # Once a step and for every group, one without gradients too: TensorFlow's powers of beta belong to the whole
        # optimizer.
        if pairs:
            for group in self.param_groups:
                self._finish(group)

    def _apply_rows(self, rows: list[Tensors], group: dict[str, Any]) -> None:
        params, grads, *slots = (list(tensors) for tensors in zip(*rows, strict=True))
        self._apply(params, grads, dict(zip(self.slot_names, slots, strict=True)), group)

    def _apply_merged(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        if grad.sparse_dim() != 1:
            raise LikeTfError(
                f"{type(self).__name__}: expected a gradient that is sparse in axis 0 alone, "
                f"got sparse_dim {grad.sparse_dim()}. Call to_dense() on it."
            )
        # Equal rows are summed before the update, as _deduplicate_indexed_slices of training/optimizer.py does: the
        # square of a sum is no sum of squares. indices: int64 [1, touched], ascending, none twice; values: [touched,
        # ...].
        merged = grad.coalesce()
        self._apply_sparse(param, merged.indices()[0], merged.values(), self.state[param], group)

    def _initial_slot_value(self, slot: str, group: dict[str, Any]) -> float:
        return 0.0

    def _check(self, group: dict[str, Any]) -> None:
        """Raises LikeTfError for hyper-parameters that TensorFlow refuses as well."""

    def _apply(
        self, params: list[Tensor], grads: list[Tensor], slots: dict[str, list[Tensor]], group: dict[str, Any]
    ) -> None:
        """Updates parameters from dense gradients, which stay as they are; in place, with torch's foreach operations.

        Each operation rounds once, in the order of TensorFlow's kernel: what fuses two, as ``add(alpha=)``, ``lerp``
        and ``addcmul`` may, gives other bits.

        Args:
            params: of one dtype and device; pieces of them, flat, for an elementwise rule.
            grads: of the same shapes.
            slots: for each slot name the slots, of the same shapes.
            group: the hyper-parameters.
        """
        raise AssertionError("an optimizer without a rule for dense gradients")

    def _apply_sparse(
        self, param: Tensor, rows: Tensor, values: Tensor, slots: dict[str, Tensor], group: dict[str, Any]
    ) -> None:
        """Updates the touched rows alone, slots included: what TensorFlow's SparseApply kernels do.

        Args:
            param: shape [rows, ...].
            rows: int64, shape [touched], without duplicates.
            values: shape [touched, ...], duplicates already summed.
            slots: the slots of the parameter.
            group: its hyper-parameters.
        """
        # Indexing by a tensor copies, so that the rows are updated in copies and written back. No row is there twice,
        # or the order of writing would matter.
        part = param[rows]
        part_slots = {name: slots[name][rows] for name in self.slot_names}
        self._apply([part], [values], {name: [slot] for name, slot in part_slots.items()}, group)
        param[rows] = part
        for name in self.slot_names:
            slots[name][rows] = part_slots[name]

    def _finish(self, group: dict[str, Any]) -> None:
        """Advances what TensorFlow advances once per step, after all updates."""

    def _rounded(self, hyper: dict[str, Any]) -> dict[str, Any]:
        return {
            name: graph_float(value) if isinstance(value, float) and name not in self.in_variable_dtype else value
            for name, value in hyper.items()
        }
