"""The handle of Apex's old interface, and the calls that its module `handle` has."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch_ddp.amp import AmpError, disable_casts, scale_loss
from torch_ddp.amp.session import Casts, Session
from torch_ddp.apex.amp.opt import OptimWrapper

__all__ = ["AmpHandle", "NoOpHandle", "disable_casts", "handle_of", "scale_loss"]


class AmpHandle:
    """Switches the casts of a session off, and wraps optimizers as Apex did before `amp.initialize`.

    Args:
        casts: of the session, or None where its level has none.
        enable_caching: shown by `has_cache`; the half copies of weights are shared in any case.
        verbose: shown by `verbose`.
    """

    def __init__(self, casts: Casts | None, enable_caching: bool = True, verbose: bool = False) -> None:
        self._casts = casts
        self.has_cache = enable_caching
        self.verbose = verbose

    def is_active(self) -> bool:
        """Returns whether calls on this thread are cast."""
        return self._casts is not None and self._casts.on_this_thread()

    def wrap_optimizer(self, optimizer: Any, num_loss: int = 1) -> OptimWrapper:
        """Returns an optimizer with a `scale_loss` of its own.

        Args:
            optimizer: which `amp.initialize` was not given.
            num_loss: losses that it steps together.
        """
        return OptimWrapper(optimizer, self, num_loss)

    def scale_loss(self, loss: Any, optimizer: Any) -> Any:
        """Raises, as in Apex 25.04.

        Raises:
            AmpError: always.
        """
        raise AmpError(
            "amp_handle.scale_loss: expected the interface of amp.initialize, got the one before it, as Apex refuses "
            "too. Call amp.initialize(model, optimizer), then amp.scale_loss(loss, optimizer)."
        )

    def remove_cache(self, param: Any) -> None:
        """Forgets the half copy of a weight; here of all weights."""
        self._clear_cache()

    def _clear_cache(self) -> None:
        if self._casts is not None:
            self._casts.mode.cache.clear()

    def _deactivate(self) -> None:
        if self._casts is not None:
            self._casts.deactivate()

    def _disable_casts(self) -> AbstractContextManager[None]:
        return self._casts.suspended() if self._casts is not None else nullcontext()


class NoOpHandle:
    """The handle where amp is not enabled: nothing is cast or scaled."""

    has_cache = False
    verbose = False

    def is_active(self) -> bool:
        """Returns False."""
        return False

    def wrap_optimizer(self, optimizer: Any, num_loss: int = 1) -> OptimWrapper:
        """Returns an optimizer whose `scale_loss` gives the loss as it is."""
        return OptimWrapper(optimizer, self, num_loss)

    @contextmanager
    def scale_loss(self, loss: Any, optimizer: Any) -> Iterator[Any]:
        """Gives the loss as it is."""
        yield loss

    def remove_cache(self, param: Any) -> None:
        """Does nothing."""

    def _clear_cache(self) -> None: ...

    def _deactivate(self) -> None: ...

    def _disable_casts(self) -> AbstractContextManager[None]:
        return nullcontext()


def handle_of(session: Session) -> AmpHandle | NoOpHandle:
    """Returns the handle of a session.

    Args:
        session: begun by `amp.initialize`.
    """
    return AmpHandle(session.casts) if session.enabled else NoOpHandle()
