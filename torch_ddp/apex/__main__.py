"""Runs a script, unedited, whose `import apex` finds what stands in for it here.

Launch: ``python -m torch_ddp.apex [--cpu] script.py [arguments]``, or with ``-m module`` in place of the script; under
torchrun: ``torchrun --nproc-per-node 2 -m torch_ddp.apex script.py``. With ``--cpu`` the CPU stands for the GPU as well:
`.cuda()`, devices and tensor types of CUDA, and nccl mean the CPU and gloo.
"""

import runpy
import sys
from pathlib import Path

from torch_ddp.apex import aliases, cpu_for_cuda

USAGE = "usage: python -m torch_ddp.apex [--cpu] (script.py | -m module) [arguments]"


def main() -> None:
    """Runs what the command line names."""
    arguments = sys.argv[1:]
    cpu = arguments[:1] == ["--cpu"]
    arguments = arguments[1:] if cpu else arguments
    as_module = arguments[:1] == ["-m"]
    arguments = arguments[1:] if as_module else arguments
    if not arguments or (arguments[0].startswith("-") and not as_module):
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    aliases.install_for_children()
    aliases.install()
    if cpu:
        cpu_for_cuda.install()
    target, sys.argv[:] = arguments[0], arguments
    if as_module:
        sys.path[0] = ""
        runpy.run_module(_own_name(target), run_name="__main__", alter_sys=True)
    else:
        if not Path(target).is_file():
            print(f"torch_ddp.apex: expected a script, got no file {target!r}. Check its path.", file=sys.stderr)
            raise SystemExit(2)
        sys.path[0] = str(Path(target).resolve().parent)
        runpy.run_path(target, run_name="__main__")


def _own_name(module: str) -> str:
    # Its spec, and so what Python calls it, is that of the module here.
    return f"torch_ddp.{module}" if module == "apex" or module.startswith("apex.") else module


if __name__ == "__main__":
    main()
