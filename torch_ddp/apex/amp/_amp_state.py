"""The object `_amp_state`, by which scripts look into amp."""

from typing import Any

import torch.distributed as dist

from torch_ddp.amp import AmpError, master_params
from torch_ddp.amp.session import Session, current
from torch_ddp.apex.amp.handle import AmpHandle, NoOpHandle, handle_of
from torch_ddp.apex.amp.scaler import LossScaler, view_of

__all__ = ["AmpState", "master_params", "maybe_print", "warn_or_err"]


class Options:
    """The options of the session, as Apex's `opt_properties` shows them; they cannot be set.

    Attributes:
        options: by name.
    """

    def __init__(self, session: Session) -> None:
        self.options: dict[str, Any] = {"enabled": session.enabled, **vars(session.properties)}

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.get("options", {})
        if name in options:
            return options[name]
        raise AttributeError(f"opt_properties has no option {name!r}")


class AmpState:
    """Shows the session that `amp.initialize` began last; before, it lacks the attributes that Apex's lacks.

    Attributes:
        allow_incoming_model_not_fp32: whether the next `initialize` accepts weights of other dtypes.
        hard_override: no effect.
    """

    def __init__(self) -> None:
        self.allow_incoming_model_not_fp32 = False
        self.hard_override = False
        self._verbosity = 1

    def _session(self, name: str) -> Session:
        try:
            return current("amp")
        except AmpError:
            # Scripts ask by hasattr whether amp was initialized.
            raise AttributeError(f"_amp_state has no {name!r} before amp.initialize") from None

    @property
    def loss_scalers(self) -> list[LossScaler]:
        """The loss scalers, one for each loss."""
        return [view_of(scaler) for scaler in self._session("loss_scalers").scalers]

    @property
    def opt_properties(self) -> Options:
        """The options, overrides included."""
        return Options(self._session("opt_properties"))

    @property
    def handle(self) -> AmpHandle | NoOpHandle:
        """What switches the casts off."""
        return handle_of(self._session("handle"))

    @property
    def verbosity(self) -> int:
        """0 is silent."""
        try:
            return current("amp").verbosity
        except AmpError:
            return self._verbosity

    @verbosity.setter
    def verbosity(self, value: int) -> None:
        self._verbosity = value
        try:
            current("amp").verbosity = value
        except AmpError:
            return


_amp_state = AmpState()


def warn_or_err(msg: str) -> None:
    """Raises an AmpError, or prints a warning where `hard_override` is set.

    Args:
        msg: what is wrong.

    Raises:
        AmpError: always, without `hard_override`.
    """
    if not _amp_state.hard_override:
        raise AmpError(msg)
    print(f"Warning:  {msg}")


def maybe_print(msg: str, rank0: bool = False) -> None:
    """Prints a message unless amp is silent.

    Args:
        msg: the message.
        rank0: whether rank 0 alone prints it.
    """
    if _amp_state.verbosity > 0 and not (rank0 and dist.is_initialized() and dist.get_rank() != 0):
        print(msg)
