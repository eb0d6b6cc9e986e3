"""One call of amp.initialize: casts on and off, also in the threads that it starts."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from torch_ddp.amp import mode_stack
from torch_ddp.amp.cast_lists import Rule, rules
from torch_ddp.amp.cast_mode import CastMode, handling
from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.loss_scaler import LossScaler
from torch_ddp.amp.model import checking_any_dtype
from torch_ddp.amp.options import Properties
from torch_ddp.amp.registry import Registered, registered
from torch_ddp.amp.replacement import Replacement
from torch_ddp.amp.threads import ThreadStarts


# A number and not a flag: blocks without casts nest.
class _Thread(threading.local):
    suspended = 0


class Casts:
    """Casts by the cast lists from `activate` to `deactivate`, on the calling thread and all that start afterwards.

    Threads that were running before take part from their first `join_thread`, which models call in O1.
    """

    def __init__(self, half: torch.dtype, allow_banned: bool = False) -> None:
        """Prepares the lists with what the user registered.

        Args:
            half: the half precision.
            allow_banned: runs banned functions in float32 where True, refuses them where False.
        """
        table = rules()
        if allow_banned:
            table = {function: Rule.FLOAT if rule is Rule.BANNED else rule for function, rule in table.items()}
        # What a function mode gets to see. Any other function is patched in its module, as Apex patches all.
        dispatched = torch.overrides.get_testing_overrides()
        # Functions that no mode sees, by module and name; they are put in place by `activate` and taken out by
        # `deactivate`.
        self._patches: list[Registered] = []
        for entry in registered():
            if entry.function in table or entry.function in dispatched:
                table[entry.function] = entry.rule
            else:
                self._patches.append(entry)
        self.mode = CastMode(table, half)
        self._thread = _Thread()
        self._starts = ThreadStarts(self._wanted, self.join_thread)
        self._replaced = [
            Replacement(nn.RNNBase, "check_input", lambda check: checking_any_dtype(check, self.on_this_thread)),
            Replacement(torch.nn.functional, "handle_torch_function", partial(handling, self.mode)),
            Replacement(torch.autograd, "_engine_run_backward", lambda run: partial(self.mode.run_engine, run)),
        ]

    def activate(self) -> None:
        """Switches the casts on, again if they were off."""
        self.mode.active = True
        for entry in self._patches:
            setattr(entry.module, entry.name, entry.wrapped)
        self._starts.watch()
        for replacement in self._replaced:
            replacement.watch()
        self.join_thread()

    def deactivate(self) -> None:
        """Switches the casts off on every thread and puts registered functions back."""
        self.mode.active = False
        self.mode.cache.clear()
        mode_stack.remove(self.mode)
        self._starts.release()
        for replacement in self._replaced:
            replacement.release()
        for entry in self._patches:
            if getattr(entry.module, entry.name) is entry.wrapped:
                setattr(entry.module, entry.name, entry.function)

    def join_thread(self) -> None:
        """Switches the casts on for this thread, unless they are off altogether or suspended here."""
        if self._wanted():
            mode_stack.insert(self.mode)

    def on_this_thread(self) -> bool:
        """Returns whether calls on this thread are being cast."""
        return self._wanted() and mode_stack.holds(self.mode)

    def suspended(self) -> "Suspension":
        """Switches the casts off for this thread and for what it starts, within the block."""
        return Suspension(self)

    def suspend(self) -> bool:
        """Switches the casts off for this thread and for what it starts, until `resume`; returns whether they were on."""
        self._thread.suspended += 1
        return mode_stack.remove(self.mode)

    def resume(self, held: bool) -> None:
        """Undoes one call of `suspend`.

        Args:
            held: what that call returned. A thread that had not joined, or was suspended already, must not have the
                casts on afterwards.
        """
        self._thread.suspended -= 1
        if held:
            self.join_thread()

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Undoes `suspended` within the block: an optimizer's closure computes the loss as the model does elsewhere."""
        depth, self._thread.suspended = self._thread.suspended, 0
        self.join_thread()
        try:
            yield
        finally:
            self._thread.suspended = depth
            if depth:
                mode_stack.remove(self.mode)

    def _wanted(self) -> bool:
        return self.mode.active and not self._thread.suspended


class Suspension(ContextDecorator):
    """A block without casts on the calling thread.

    A class, and not a generator: every step enters four of them.
    """

    def __init__(self, casts: Casts | None) -> None:
        """Prepares the block.

        Args:
            casts: to be switched off; None for those of the session there is when the block begins.
        """
        self._of = casts
        self._casts: Casts | None = None
        self._held = False

    def _recreate_cm(self) -> "Suspension":
        # As a decorator: one for each call, since calls nest and threads make them at once.
        return Suspension(self._of)

    def __enter__(self) -> None:
        self._casts = current_casts() if self._of is None else self._of
        if self._casts is not None:
            self._held = self._casts.suspend()

    def __exit__(self, *error: object) -> None:
        if self._casts is not None:
            self._casts.resume(self._held)


def call_cast(casts: Casts | None, rule: Rule, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a user's function with its arguments cast by a rule, where casts are on.

    Args:
        casts: those of the session, or None.
        rule: HALF, FLOAT or WIDEST.
        function: what to call.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    # Apex has one switch for the process; here it is asked of the calling thread, as the mode is.
    if casts is not None and casts.on_this_thread():
        args, kwargs = casts.mode.arguments(rule, function.__name__, args, kwargs)
    return function(*args, **kwargs)


@dataclass
class Session:
    """Holds what `initialize` was asked for.

    Attributes:
        properties: the options, overrides included.
        scalers: one loss scaler per loss.
        enabled: False makes every call of amp do nothing.
        casts: the casts of O1, else None.
        optimizers: those initialized, in the order given; before them those of earlier calls that train along.
        verbosity: 0 is silent, 1 prints what Apex prints.
    """

    properties: Properties
    scalers: list[LossScaler]
    enabled: bool = True
    casts: Casts | None = None
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    verbosity: int = 1


_sessions: list[Session] = []
# Of all calls of `initialize`, in their order.
_optimizers: list[weakref.ref[torch.optim.Optimizer]] = []


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
    _optimizers.extend(weakref.ref(optimizer) for optimizer in session.optimizers)
    # One session at a time, as in Apex, whose state is global.
    _sessions[:] = [session]
    if session.casts is not None:
        session.casts.activate()


def optimizers_of_all_calls() -> list[torch.optim.Optimizer]:
    """Returns the living optimizers that any call of `initialize` was given, in the order of the calls."""
    # What amp put on an optimizer refers to it, so that one given up lives until here.
    gc.collect()
    living = [optimizer for optimizer in (reference() for reference in _optimizers) if optimizer is not None]
    _optimizers[:] = [weakref.ref(optimizer) for optimizer in living]
    return living


def take_in(session: Session, optimizer: torch.optim.Optimizer) -> None:
    """Makes an optimizer of an earlier call of `initialize` one of the session, whose state then holds its masters.

    Scripts that call `initialize` once for each of two models go on with both.

    Args:
        session: the current one.
        optimizer: about to be used in it.
    """
    if any(optimizer is known for known in session.optimizers):
        return
    members = [*session.optimizers, optimizer]
    session.optimizers = [one for one in optimizers_of_all_calls() if any(one is member for member in members)]


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


def disable_casts() -> Suspension:
    """Switches the casts of O1 off on the calling thread, within the block."""
    return Suspension(None)


def join_threads(model: nn.Module) -> None:
    """Installs the hook of O1 on a model.

    Args:
        model: changed in place; deep copies work.
    """
    model.register_forward_pre_hook(_join)


def _join(module: nn.Module, args: Any) -> None:
    casts = current_casts()
    if casts is not None:
        # Threads that ran before `initialize`, of a pool for one, join when they first call a model.
        casts.join_thread()
