"""Makes `import apex`, `import amp_C` and `import apex_C` find what stands in for them here."""

import importlib
import os
import pkgutil
import sys
from pathlib import Path

from torch_ddp import apex
from torch_ddp.apex.missing import PACKAGE

# A folder with modules called apex, amp_C and apex_C, which do nothing but call `install`.
STAND_IN = Path(__file__).parent / "stand_in"
EXTENSIONS = ("amp_C", "apex_C")
# Programs, and what is not a name of Apex.
NOT_APEX = (
    "__main__",
    "aliases",
    "cpu_for_cuda",
    "fused",
    "missing",
    "moment_rules",
    "multiproc",
    "stand_in",
    "tensor_lists",
    "update_rules",
)


def install() -> None:
    """Enters the modules of `torch_ddp.apex` into `sys.modules` under the names of Apex."""
    sys.modules["apex"] = apex
    for found in pkgutil.walk_packages(apex.__path__, f"{PACKAGE}."):
        if not set(found.name.split(".")).intersection(NOT_APEX):
            # The same object under both names: a class is not made twice, and isinstance holds.
            sys.modules[found.name.removeprefix("torch_ddp.")] = importlib.import_module(found.name)
    for name in EXTENSIONS:
        sys.modules[name] = sys.modules[f"{PACKAGE}.{name}"]


def install_for_children() -> None:
    """Makes every Python process that this one starts find them as well, by `sys.path` and PYTHONPATH."""
    folder = str(STAND_IN)
    if folder not in sys.path:
        sys.path.append(folder)
    before = os.environ.get("PYTHONPATH", "")
    if folder not in before.split(os.pathsep):
        # First: a Python package of the same name, of an installed Apex or another, must not come before.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, before)))
