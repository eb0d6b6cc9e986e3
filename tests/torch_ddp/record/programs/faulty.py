"""A program of which something goes wrong: python faulty.py FAULT --out WEIGHTS; its ranks share nothing."""

import argparse
import os
import signal
import sys
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("fault")
parser.add_argument("--out")
given = parser.parse_args()
rank = int(os.environ.get("RANK", 0))
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    if given.fault == "evaluates":
        with torch.no_grad():
            model(torch.randn(3, 4))
        continue
    optimizer.zero_grad()
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    if step == 2 and given.fault == "raises" and rank == 1:
        raise RuntimeError("out of luck")
    if step == 2 and given.fault in ("killed", "waits_for_killed"):
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if given.fault == "waits_for_killed":
            time.sleep(600)
    if step == 2 and given.fault == "hangs":
        print("hangs", flush=True)
        time.sleep(600)
    if step == 2 and given.fault == "forks":
        if not os.fork():
            sys.exit()
        os.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 2 and given.fault == "exits":
        sys.exit(3)
    if step == 3 and given.fault == "hard_exit":
        os._exit(0)
