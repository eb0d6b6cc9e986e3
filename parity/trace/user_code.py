"""Loads the functions that a case names, from the folders it names them in."""

import importlib
import os
import sys
from typing import Any, Callable, List

from parity.trace.channel import SideError


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
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if path and os.path.dirname(os.path.abspath(path)) in self._folders:
                del sys.modules[name]
        sys.path[:] = [path for path in sys.path if path not in self._folders]
        sys.path[:0] = folders
        self._folders = list(folders)
        importlib.invalidate_caches()

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
