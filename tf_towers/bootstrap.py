"""Starts a module of ours in an interpreter that has TensorFlow and numpy, and nothing of ours installed.

Usage: ``python path/to/tf_towers/bootstrap.py MODULE ARGS…``, e.g. ``tf_towers.child``. Only `tf_towers` and `parity` are
found beside this file: adding the folder itself to the path would hand a legacy interpreter the packages of a newer one.
"""

import importlib.machinery
import os
import runpy
import sys


class OurPackages(object):
    """Finds `tf_towers` and `parity` beside this file, and nothing else."""

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Returns the spec of our own top-level packages, else None."""
        if name in ("tf_towers", "parity"):
            return importlib.machinery.PathFinder.find_spec(name, [cls.root])
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, OurPackages)
    del sys.path[0]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
