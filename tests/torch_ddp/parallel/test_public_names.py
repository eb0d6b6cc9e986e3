import inspect

import pytest

from torch_ddp import parallel

NAMES = [
    "LARC",
    "DistributedDataParallel",
    "ParallelError",
    "ReduceOp",
    "Reducer",
    "SyncBatchNorm",
    "convert_syncbn_model",
    "create_syncbn_process_group",
]


def test_the_public_names_are_these():
    assert parallel.__all__ == NAMES
    assert all(hasattr(parallel, name) for name in NAMES)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"ReduceOp"}))  # torch writes the text of ReduceOp
def test_every_public_name_says_what_it_does(name):
    doc = inspect.getdoc(getattr(parallel, name))
    assert doc
    assert doc.splitlines()[0].endswith(".")
