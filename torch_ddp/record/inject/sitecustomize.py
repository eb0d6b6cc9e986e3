# mypy: ignore-errors
"""Python imports this at its start where its folder is first on PYTHONPATH: has a training program observed.

Harmless in every process that trains nothing, and in any Python 3: until torch is imported only the next
`sitecustomize` on the path is. Without annotations, which an interpreter older than 3.6 does not read.
"""

import importlib.util
import os
import sys

VARIABLE = "PARITY_PROGRAM_REQUEST"  # as parity.worker.program_request has it, which cannot be imported yet
HERE = os.path.dirname(os.path.abspath(__file__))
BOOTSTRAP = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "parity", "worker", "bootstrap.py")


class AfterTorch(object):
    """Finder of no module of its own: calls `observe` when `torch` has been imported."""

    def find_spec(self, name, path=None, target=None):
        """Returns the spec that the finders behind give for torch, else None."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = getattr(spec, "loader", None)
        if loader is not None and hasattr(loader, "exec_module"):
            execute = loader.exec_module

            def then_observe(module):
                execute(module)
                observe()

            loader.exec_module = then_observe
        return spec


def observe():
    """Begins to observe this process; where that fails, it goes on unobserved."""
    try:
        # By its path: nothing of ours is on the program's own path, and nothing beside our packages shall be.
        spec = importlib.util.spec_from_file_location("_parity_bootstrap", BOOTSTRAP)
        bootstrap = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bootstrap)
        sys.meta_path.insert(0, bootstrap.OurPackages)
        from torch_ddp.record.start import begin

        begin()
    except Exception as error:
        sys.stderr.write("record: cannot observe this process: {}: {}\n".format(type(error).__name__, error))


def chain():
    """Imports the `sitecustomize` that would have been imported without this one."""
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
    finally:
        # The import system takes this module out of there again, and misses it else.
        sys.modules.setdefault("sitecustomize", ours)


if os.path.isfile(os.environ.get(VARIABLE, "")):
    if "torch" in sys.modules:  # a .pth file imports it, which Python reads before this
        observe()
    else:
        sys.meta_path.insert(0, AfterTorch())
chain()
