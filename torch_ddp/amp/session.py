"""What one call of `initialize` set up; there is one session at a time, as in Apex."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch

from torch_ddp.amp.casts import Casts
from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.loss_scaler import LossScaler
from torch_ddp.amp.options import Properties


@dataclass
class Session:
    """Holds what `initialize` was asked for.

    Attributes:
        properties: the options, overrides included.
        scalers: one loss scaler per loss.
        enabled: False makes every call of amp do nothing.
        casts: the casts of O1, else None.
        optimizers: those initialized, in the order given.
        verbosity: 0 is silent, 1 prints what Apex prints.
    """

    properties: Properties
    scalers: list[LossScaler]
    enabled: bool = True
    casts: Casts | None = None
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    verbosity: int = 1


_sessions: list[Session] = []


def current(who: str) -> Session:
    """Returns the session.

    Args:
        who: the public name that asks, for the message.

    Raises:
        AmpError: `initialize` has not been called.
    """
    if not _sessions:
        raise AmpError(f"{who}: expected amp.initialize before it, got no call of it. Call amp.initialize first.")
    return _sessions[-1]


def begin(session: Session) -> None:
    """Makes a session the current one and ends the casts of the one before.

    Args:
        session: the new one.
    """
    deactivate()
    _sessions[:] = [session]
    if session.casts is not None:
        session.casts.activate()


def deactivate() -> None:
    """Ends the casts that `initialize` with O1 began; models then run in the dtype of their weights again.

    Loss scaling and master weights go on. Without a session it does nothing.
    """
    casts = current_casts()
    if casts is not None:
        casts.deactivate()


def current_casts() -> Casts | None:
    """Returns the casts of the session, or None where there is none or it has no casts."""
    return _sessions[-1].casts if _sessions else None


@contextmanager
def disable_casts() -> Iterator[None]:
    """Switches the casts of O1 off on the calling thread, within the block."""
    casts = current_casts()
    with casts.suspended() if casts is not None else nullcontext():
        yield
