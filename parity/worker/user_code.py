"""Loads the functions that a case names, from the folders it names them in."""

import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence

from parity.worker.protocol import SideError


class UserCode(object):
    """Loads "module:function" from a case's folders; one case at a time in a long-lived process.

    Modules of an earlier case are forgotten when the folders change, so that two cases may both have a `model.py`.
    """

    def __init__(self) -> None:
        self._folders: List[str] = []

    def enter(self, folders: List[str]) -> None:
        """Makes `folders` (absolute paths, searched in order) the place to load from."""
        if folders == self._folders:
            return
        self.forget()
        sys.path[:] = [path for path in sys.path if path not in self._folders]
        sys.path[:0] = folders
        self._folders = list(folders)
        importlib.invalidate_caches()  # a file written within the last second is not seen otherwise

    @property
    def modules(self) -> Dict[str, ModuleType]:
        """Those that were imported from the folders, by name."""
        found = {}
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if path and os.path.dirname(os.path.abspath(path)) in self._folders:
                found[name] = module
        return found

    def forget(self) -> None:
        """Has modules of the folders be imported anew where they are loaded next."""
        for name in self.modules:
            del sys.modules[name]

    def load(self, spec: str) -> Callable[..., Any]:
        """Returns the function named "module:function".

        Raises:
          SideError: there is no such module or function. Whatever importing the module raises comes through.
        """
        module_name, _, function_name = spec.partition(":")
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            if getattr(error, "name", None) != module_name:
                raise
            raise SideError(
                f"case: expected a module {module_name!r} for {spec!r} in {' or '.join(self._folders)}, got none. "
                "Put the file there, or write its right name into the case."
            ) from None
        function = getattr(module, function_name, None)
        if not callable(function):
            raise SideError(
                f"case: expected a function {function_name!r} in {module.__file__}, got none. "
                f"Define it there, or write its right name for {spec!r} into the case."
            )
        return function  # type: ignore[no-any-return]


def call_as(
    written: str,
    function: Callable[..., Any],
    given: Sequence[Any] = (),
    named: Optional[Dict[str, Any]] = None,
    cure: str = "Let it take these, and no more without a default.",
) -> Any:
    """Returns ``function(*given, **named)``.

    Args:
      written: the call as a user would write it, for the message, e.g. "optimizer(model)".
      function: the user's.
      given: its arguments by position.
      named: its arguments by name.
      cure: what to do about a function that cannot be called so.

    Raises:
      SideError: the function cannot be called with these arguments. Whatever else it raises comes through.
    """
    # Called first and checked only if it fails: wrapped and built-in functions may take more than their signature says,
    # and a TypeError of the function's own comes through as it is.
    try:
        return function(*given, **named or {})
    except TypeError:
        _require_fit(written, function, given, named or {}, cure)
        raise


def _require_fit(
    written: str, function: Callable[..., Any], given: Sequence[Any], named: Dict[str, Any], cure: str
) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some that are written in C have none
        return
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        raise SideError(
            f"case: expected a function that can be called as {written}, got one of {signature}: {error}. {cure}"
        ) from None
