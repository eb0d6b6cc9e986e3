"""Which tests the default tier leaves out, beside those that are marked `slow` where they are written.

A full product of parameters stays in the suite; the default tier has a covering of it: so few of the combinations that each
value, or each pair of values, is in one of them: of tests marked `covering`, and of tests in a child with TensorFlow 1.15.
Whole runs and recordings on TensorFlow 1.15 are left out but for tests marked `both_tensorflows`. Of whole runs marked
`thinned` no tier has the product: what more of it would show, tests of the parts show in a hundredth of the time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations

import pytest

CHILDREN = {"tf", "tf1"}  # one TensorFlow process for all their tests, where a call costs a tenth of a second


def few(values: Iterable, *default: object) -> list:
    """Returns all values, or tuples of them, as parameters, of which the default tier has those in `default`."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    wanted = [value if isinstance(value, tuple) else (value,) for value in default]
    return [pytest.param(*row, marks=() if row in wanted else pytest.mark.slow) for row in rows]


def on_both(values: Iterable, *both: object) -> pytest.MarkDecorator:
    """Returns the parameters `tf_python` and `name`: values on TensorFlow 1.15, and those in `both` on TensorFlow 2 too."""
    legacy = [pytest.param("tf1", value, marks=pytest.mark.tf1) for value in values]
    return pytest.mark.parametrize(
        ("tf_python", "name"), [*(("tf2", value) for value in both), *legacy], indirect=["tf_python"]
    )


def covering(rows: list[tuple], strength: int, first: Iterable[int] = ()) -> set[int]:
    """Returns places of rows among which is every combination of values of `strength` columns that is among all rows.

    Args:
      rows: values of parameters.
      strength: 1 for each value once, 2 for each pair of values.
      first: places that are among them in any case.
    """
    shown = [_shown(row, strength) for row in rows]
    chosen = set(first)
    missing = set().union(*shown).difference(*(shown[place] for place in chosen))
    uses = Counter(each for place in chosen for each in enumerate(rows[place]))

    def worth(place: int) -> tuple:
        # Last the values that were taken least often: else all that is left to show has the first value of the others.
        used = sum(uses[column, value] for column, value in enumerate(rows[place]))
        return len(shown[place] & missing), -used, -place

    while missing:
        best = max(range(len(rows)), key=worth)
        chosen.add(best)
        missing -= shown[best]
        uses.update(enumerate(rows[best]))
    return chosen


def _shown(row: tuple, strength: int) -> set[tuple]:
    return set(combinations(enumerate(row), min(strength, len(row)))) or {()}


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _thin(config, items)
    legacy, products = defaultdict(list), defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            continue  # is not in the default tier, and shows nothing there
        of = (item.path, getattr(item, "originalname", item.name))
        if item.get_closest_marker("tf1") and not item.get_closest_marker("both_tensorflows"):
            legacy[of].append(item)
        elif item.get_closest_marker("covering"):
            products[of].append(item)
    for together in legacy.values():
        _leave_out(together, 1 if CHILDREN & set(together[0].fixturenames) else 0)
    for together in products.values():
        _leave_out(together, together[0].get_closest_marker("covering").args[0])


def _thin(config: pytest.Config, items: list[pytest.Item]) -> None:
    products = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thinned"):
            products[item.path, getattr(item, "originalname", item.name)].append(item)
    gone = set()
    for together in products.values():
        # What the default tier can have, it has after this as before.
        at_once = [place for place, item in enumerate(together) if not {"slow", "tf1"} & {*_marks(item)}]
        gone |= set(_not_covering(together, together[0].get_closest_marker("thinned").args[0], at_once))
    if gone:
        config.hook.pytest_deselected(items=[item for item in items if item in gone])
        items[:] = [item for item in items if item not in gone]


def _marks(item: pytest.Item) -> list[str]:
    return [mark.name for mark in item.iter_markers()]


def _leave_out(items: list[pytest.Item], strength: int) -> None:
    for item in _not_covering(items, strength):
        item.add_marker(pytest.mark.slow)


def _not_covering(items: list[pytest.Item], strength: int, first: Iterable[int] = ()) -> list[pytest.Item]:
    rows = [tuple(map(repr, item.callspec.params.values())) if hasattr(item, "callspec") else () for item in items]
    chosen = covering(rows, strength, first) if strength else set()
    return [item for place, item in enumerate(items) if place not in chosen]
