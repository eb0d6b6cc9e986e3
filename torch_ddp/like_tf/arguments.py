"""Names of arguments: torch's in every signature, TensorFlow's accepted beside them."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch_ddp.like_tf.errors import LikeTfError

F = TypeVar("F", bound=Callable[..., Any])
FURTHER = "further_names_of_arguments"


def also_named(**names: str) -> Callable[[F], F]:
    """Lets a function take further names for its keyword arguments, TensorFlow's beside torch's.

    Args:
        names: the further name of each argument, and its own: ``epsilon="eps"``.

    Returns:
        A decorator. What it returns raises LikeTfError where one argument comes under two names.
    """

    def decorate(function: F) -> F:
        who = function.__qualname__.removesuffix(".__init__")
        unknown = set(names.values()) - set(inspect.signature(function).parameters)
        assert not unknown, f"{who} has no arguments {sorted(unknown)}"

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            return function(*args, **renamed(who, keywords, names))

        setattr(call, FURTHER, frozenset(names))
        return cast(F, call)

    return decorate


def accepted_names(function: Callable[..., Any]) -> frozenset[str]:
    """Returns the names that a function's keyword arguments may have, further ones among them.

    Args:
        function: any; of a class its ``__init__``.
    """
    return frozenset(inspect.signature(function).parameters) | getattr(function, FURTHER, frozenset())


def renamed(who: str, keywords: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Returns keyword arguments under their own names.

    Args:
        who: whose arguments they are, for the message.
        keywords: values by name, in their order.
        names: an argument's own name by each further name.

    Raises:
        LikeTfError: one argument is there under two names.
    """
    result: dict[str, Any] = {}
    for name, value in keywords.items():
        own = names.get(name, name)
        if own in result:
            also = next(other for other in keywords if names.get(other, other) == own and other != name)
            raise LikeTfError(f"{who}: expected one of {also} and {name}, got both. Leave one of them out.")
        result[own] = value
    return result
