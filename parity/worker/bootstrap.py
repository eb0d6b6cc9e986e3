"""Starts a module of ours in any interpreter, with nothing of ours installed there (Python 3.6 and up).

Usage: ``python path/to/parity/worker/bootstrap.py MODULE ARGS…``, e.g. ``tf_towers.worker``. Our packages are found beside
this one, and nothing else there is: adding their folder to the path would hand a legacy interpreter the packages of a
newer one. Where the framework is missing, the first request is answered by saying so.
"""

import importlib.machinery
import json
import os
import runpy
import sys
from typing import Any, Optional

PACKAGES = ("parity", "tf_towers", "torch_ddp")
CURES = {
    "tensorflow": "Install it there (pip install tensorflow tf_keras), or name an interpreter that has it with --tf-python.",
    "torch": "Install it there: pip install torch.",
    "numpy": "Install it there: pip install numpy.",
}


class OurPackages(object):
    """Finds our own packages beside this one, and nothing else."""

    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> "Optional[importlib.machinery.ModuleSpec]":
        """Returns the spec of one of our top-level packages, else None."""
        if name in PACKAGES:
            return importlib.machinery.PathFinder.find_spec(name, [cls.root])
        return None


def main(module: str) -> None:
    """Runs `module` as the main program, or answers that it cannot be."""
    sys.meta_path.insert(0, OurPackages)  # first, or an installed copy of another version would be found before
    del sys.path[0]  # the folder of this file, where `protocol` and `data` would be found under bare names
    # Before the module, which may import a framework for seconds: nobody is left who would end it if its parent is killed.
    importlib.import_module("parity.worker.parent").die_with_parent()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except ImportError as error:
        # Only what a user may lack; that one of our own modules lacks another is our bug, and needs its traceback.
        missing = (getattr(error, "name", None) or "").split(".")[0]
        if missing not in CURES:
            raise
        message = f"expected {missing} in {sys.executable}, got: {error}. {CURES[missing]}"
        described = {"type": type(error).__name__, "message": message, "traceback": "", "plain": True}
        sys.stdout.write(json.dumps({"error": described}) + "\n")


if __name__ == "__main__":
    del sys.argv[0]
    main(sys.argv[0])
