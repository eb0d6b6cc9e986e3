"""Plants mutations in a copy of a case."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from parity.case import Case

MUTANT = '''"""The port with a bug in it."""

import importlib
import json
from pathlib import Path

from torch_ddp.step.optimizer import make_optimizer
from torch_ddp.mutations import MUTATIONS, Port

planted = json.loads((Path(__file__).parent / "planted.json").read_text())


def load(spec):
    module, _, name = spec.partition(":")
    return getattr(importlib.import_module(module), name)


def make(model):
    described = planted["optimizer"]
    return load(described)(model) if isinstance(described, str) else make_optimizer(described, model)


port = Port(load(planted["model"]), load(planted["loss"]), make, planted["loss"].partition(":")[0])
for name, size in planted["mutations"]:
    port = MUTATIONS[name].plant(port, size)
Model, loss, optimizer = port.model, port.loss, port.optimizer
'''


class Planted(NamedTuple):
    """A bug in a net.

    Fields:
      mutation: its name in `torch_ddp.mutations.MUTATIONS`.
      size: what it is off by, 1 where it has no size.
    """

    mutation: str
    size: float = 1.0


def plant(case: Case, planted: Planted | Sequence[Planted], into: Path, changes_optimizer: bool) -> Case:
    """Copies a case's folder to `into` and plants a bug in its port, or several.

    Args:
      case: a right port.
      planted: the bug, or the bugs.
      into: folder to make; its parent gets the modules that lie beside the case's folder.
      changes_optimizer: whether one of them sits in the optimizer, so that the port has to bring its own.
    """
    bugs = [planted] if isinstance(planted, Planted) else planted
    into.parent.mkdir(parents=True, exist_ok=True)
    # Modules that several cases share lie beside them, and are imported by their plain names.
    for shared in case.directory.parent.glob("*.py"):
        shutil.copy(shared, into.parent)
    # A golden trace may be large, and is not what runs.
    shutil.copytree(case.directory, into, ignore=shutil.ignore_patterns("golden", "__pycache__"))
    port = case.torch
    # What the case describes becomes the port's own, so that the bug has an optimizer to sit in.
    described = port.optimizer or (case.optimizer.model_dump(exclude_none=True) if case.optimizer else None)
    (into / "planted.json").write_text(
        json.dumps(
            {
                "mutations": [list(each) for each in bugs],
                "model": port.model,
                "loss": port.loss,
                "optimizer": described,
            }
        )
    )
    (into / "mutant.py").write_text(MUTANT)
    changed = {"model": "mutant:Model", "loss": "mutant:loss"}
    if changes_optimizer:
        changed["optimizer"] = "mutant:optimizer"
    return case.model_copy(update={"directory": into, "torch": port.model_copy(update=changed)})
