"""The casts of O1 as something that is switched on and off: for the process, for a thread, for a block."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch_ddp.amp import mode_stack
from torch_ddp.amp.cast_lists import Rule, rules
from torch_ddp.amp.cast_mode import CastMode
from torch_ddp.amp.model import RecurrentInputs
from torch_ddp.amp.registry import Registered, registered
from torch_ddp.amp.threads import ThreadStarts


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
        dispatched = torch.overrides.get_testing_overrides()
        self._patches: list[Registered] = []
        for entry in registered():
            if entry.function in table or entry.function in dispatched:
                table[entry.function] = entry.rule
            else:
                self._patches.append(entry)
        self.mode = CastMode(table, half)
        self._thread = _Thread()
        self._starts = ThreadStarts(self._wanted, self.join_thread)
        self._recurrent = RecurrentInputs(self.on_this_thread)

    def activate(self) -> None:
        """Switches the casts on, again if they were off."""
        self.mode.active = True
        for entry in self._patches:
            setattr(entry.module, entry.name, entry.wrapped)
        self._starts.watch()
        self._recurrent.watch()
        self.join_thread()

    def deactivate(self) -> None:
        """Switches the casts off on every thread and puts registered functions back."""
        self.mode.active = False
        self.mode.cache.clear()
        mode_stack.remove(self.mode)
        self._starts.release()
        self._recurrent.release()
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

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Switches the casts off for this thread and for what it starts, within the block."""
        held = mode_stack.holds(self.mode)
        mode_stack.remove(self.mode)
        self._thread.suspended += 1
        try:
            yield
        finally:
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


def call_cast(casts: Casts | None, rule: Rule, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls a user's function with its arguments cast by a rule, where casts are on.

    Args:
        casts: those of the session, or None.
        rule: HALF, FLOAT or WIDEST.
        function: what to call.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """
    if casts is not None and casts.on_this_thread():
        args, kwargs = casts.mode.arguments(rule, function.__name__, args, kwargs)
    return function(*args, **kwargs)
