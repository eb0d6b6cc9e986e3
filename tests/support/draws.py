"""What a test draws is its own: every generator that tests share begins anew with each of them, by the test's name.

A generator of a module, drawn from inside tests, goes on where the test before left it: one test alone, or another order, or
another worker, then has other numbers. So do those of Python, numpy and torch. What a module draws while it is imported, its
constants, is the same in any order, and stays.
"""

import random
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest


def generators_of(module: ModuleType | None) -> list[np.random.Generator]:
    """Returns the generators that have a name in a module."""
    return [value for value in vars(module).values() if isinstance(value, np.random.Generator)] if module else []


def begin_anew(name: str, module: ModuleType | None) -> None:
    """Seeds a module's generators, and those of Python, numpy and torch, by a name."""
    seed = zlib.crc32(name.encode())  # hash() of a text is another one in each process
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    for generator in generators_of(module):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state


def _states(module: ModuleType | None) -> list[tuple[Callable[[Any], object], object]]:
    states = [(random.setstate, random.getstate()), (np.random.set_state, np.random.get_state())]
    if torch := sys.modules.get("torch"):
        states.append((torch.set_rng_state, torch.get_rng_state()))
    bits = [generator.bit_generator for generator in generators_of(module)]
    return states + [(partial(setattr, each, "state"), each.state) for each in bits]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    begin_anew(item.name, getattr(item, "module", None))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[object]:
    """Gives what several tests share its own draws, for which of them asks first is a matter of their order."""
    if fixturedef.scope == "function":
        return (yield)
    module = sys.modules.get(fixturedef.func.__module__)
    of_the_test = _states(module)
    begin_anew(f"{fixturedef.argname} {getattr(request, 'param_index', 0)}", module)
    try:
        return (yield)
    finally:
        for restore, state in of_the_test:
            restore(state)
