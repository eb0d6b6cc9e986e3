"""Starts a script once for each GPU of this machine: ``python -m torch_ddp.apex -m apex.parallel.multiproc script.py``.

Each process gets ``--rank`` and ``--world-size`` behind its other arguments; all but the first write to ``GPU_<rank>.log``.
`torchrun` does the same, and more; this is for scripts that read those two.

Counterpart: apex.parallel.multiproc
"""

import subprocess
import sys
from pathlib import Path

import torch


def main(arguments: list[str]) -> int:
    """Runs the processes, and returns the exit code of the first that failed, or 0.

    Args:
        arguments: the script and its arguments; ``--world-size N`` among them sets how many, in place of the GPUs.
    """
    arguments = list(arguments)
    if "--world-size" in arguments:
        size = int(arguments[arguments.index("--world-size") + 1])
    else:
        size = torch.cuda.device_count()
        arguments += ["--world-size", str(size)]
    if size < 1:
        print("multiproc: expected a GPU, got none. Pass --world-size N.", file=sys.stderr)
        return 2
    if "--rank" not in arguments:
        arguments += ["--rank", "0"]
    place = arguments.index("--rank") + 1
    workers = []
    for rank in range(size):
        arguments[place] = str(rank)
        # The file stays open in the child alone.
        log = Path(f"GPU_{rank}.log").open("w", encoding="utf-8") if rank else None  # noqa: SIM115
        workers.append(subprocess.Popen([sys.executable, *arguments], stdout=log))
        if log is not None:
            log.close()
    codes = [worker.wait() for worker in workers]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
