import inspect

import pytest

from torch_ddp import reduction

NAMES = [
    "HOOKS",
    "BufferPolicy",
    "ExampleCounts",
    "Reduction",
    "accumulate",
    "clip_by_global_norm_",
    "clip_by_norm_",
    "mean_hook",
    "ordered_mean_hook",
    "ordered_sum_hook",
    "prepare_buffers",
    "settle_buffers",
    "sum_hook",
    "weighted_mean_hook",
]
NAMES_OF_DATA = {"HOOKS", "BufferPolicy", "Reduction"}


def test_the_public_names_are_these():
    assert reduction.__all__ == NAMES
    assert all(hasattr(reduction, name) for name in NAMES)


@pytest.mark.parametrize("name", sorted({*NAMES} - NAMES_OF_DATA))
def test_every_public_name_says_what_it_does(name):
    doc = inspect.getdoc(getattr(reduction, name))
    assert doc
    assert doc.splitlines()[0].endswith(".")


def test_there_is_a_hook_for_every_reduction():
    assert tuple(reduction.HOOKS) == reduction.Reduction.__args__
    assert {hook.__name__ for hook in reduction.HOOKS.values()} == {
        name for name in NAMES if name.endswith("_hook") and name != "weighted_mean_hook"
    }
