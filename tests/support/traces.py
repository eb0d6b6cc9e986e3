"""Small traces of one variable, to be compared or broken."""

import numpy as np

from parity.trace import TraceWriter

VARIABLES = {"kernel": {"shape": [3], "dtype": "float32", "kind": "weight"}}


def record(folder, steps=3, close=True, scale=1.0, start=(1.0, 2.0, 3.0)):
    writer = TraceWriter(str(folder), {"package": "test"}, {"precision": "float32", "towers": 2}, VARIABLES)
    kernel = np.array(start, np.float32)
    writer.init({"var/kernel": kernel})
    for number in range(steps):
        gradient = np.array([0.5, -1.0, 0.25], np.float32) * np.float32(scale)
        kernel = kernel - np.float32(0.1) * gradient
        writer.step(number, {"loss/0": np.float32(1.5), "grad/kernel": gradient, "var/kernel": kernel})
    if close:
        writer.close()
    return folder
