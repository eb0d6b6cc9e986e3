"""Functions of the user's own that take part in O1: by decorator, or by module and name."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from torch_ddp.amp.cast_lists import Rule
from torch_ddp.amp.errors import AmpError

Function = TypeVar("Function", bound=Callable[..., Any])


class Registered(NamedTuple):
    """One registered function: where it lives, what it is, its casting form and its rule."""

    module: object
    name: str
    function: Callable[..., Any]
    wrapped: Callable[..., Any]
    rule: Rule


_registered: dict[tuple[int, str], Registered] = {}


def registered() -> list[Registered]:
    """Returns what has been registered, in order."""
    return list(_registered.values())


def half_function(function: Function) -> Function:
    """Makes a function receive its floating point arguments in half precision while O1 is on.

    Args:
        function: any Python function; float32 weights among its arguments are cast once per iteration.
    """
    return _decorated(function, Rule.HALF)


def float_function(function: Function) -> Function:
    """Makes a function receive its floating point arguments in float32 while O1 is on; float64 stays.

    Args:
        function: any Python function.
    """
    return _decorated(function, Rule.FLOAT)


def promote_function(function: Function) -> Function:
    """Makes a function receive its floating point arguments in the widest dtype among them while O1 is on.

    Args:
        function: any Python function.
    """
    return _decorated(function, Rule.WIDEST)


def register_half_function(module: object, name: str) -> None:
    """Makes `module.name` run in half precision under every later `initialize` with O1.

    Functions of torch are caught however they are reached; others where they are looked up in the module, as in Apex.

    Args:
        module: a module or class.
        name: of a function in it.

    Raises:
        AmpError: there is no such function.
    """
    _register(module, name, Rule.HALF, "amp.register_half_function")


def register_float_function(module: object, name: str) -> None:
    """Makes `module.name` run in float32 under every later `initialize` with O1.

    Args:
        module: a module or class.
        name: of a function in it.

    Raises:
        AmpError: there is no such function.
    """
    _register(module, name, Rule.FLOAT, "amp.register_float_function")


def register_promote_function(module: object, name: str) -> None:
    """Makes `module.name` run in the widest dtype of its arguments under every later `initialize` with O1.

    Args:
        module: a module or class.
        name: of a function in it.

    Raises:
        AmpError: there is no such function.
    """
    _register(module, name, Rule.WIDEST, "amp.register_promote_function")


def _decorated(function: Function, rule: Rule) -> Function:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # Here and not above: the session imports this module.
        from torch_ddp.amp.session import call_cast, current_casts

        return call_cast(current_casts(), rule, function, args, kwargs)

    return wrapper  # type: ignore[return-value]


def _register(module: object, name: str, rule: Rule, who: str) -> None:
    function = getattr(module, name, None)
    if not callable(function):
        where = getattr(module, "__name__", repr(module))
        raise AmpError(f"{who}: expected a function {name!r} in {where}, got none. Check the spelling.")
    before = _registered.get((id(module), name))
    # Registered twice: what the session has patched in is ours, and is not wrapped once more.
    if before is not None and function is before.wrapped:
        function = before.function
    _registered[id(module), name] = Registered(module, name, function, _decorated(function, rule), rule)
