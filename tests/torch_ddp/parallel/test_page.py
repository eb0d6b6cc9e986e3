import re
from pathlib import Path

import pytest

from torch_ddp import parallel, reduction

PAGE = Path(__file__).parents[3] / "docs" / "parallel.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def executed(rank, block):
    names = {}
    exec(compile(block, "docs/parallel.md", "exec"), names)
    return [parameter.detach() for parameter in names["model"].parameters()]


def test_the_page_has_programs():
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_the_programs_of_the_page_run_and_leave_the_same_weights_on_all_ranks(two_ranks, block):
    first, second = two_ranks(executed, BLOCKS[block])
    assert all((one == other).all() for one, other in zip(first, second, strict=True))


def test_the_page_names_every_public_name():
    page = PAGE.read_text(encoding="utf-8")
    typing_only = {"BufferPolicy", "Reduction", "HOOKS"}
    names = (set(parallel.__all__) | set(reduction.__all__)) - typing_only
    assert not [name for name in sorted(names) if name not in page]
