"""Moves Apex's own loss scaler and this project's through the same random overflows.

Launch, with Apex's sources and this project on the path: `python loss_scalers.py`.
"""

import itertools
import random

from apex.amp.scaler import LossScaler as ApexLossScaler

from torch_ddp.amp.loss_scaler import LossScaler

STEPS = 100_000
RATES = (0.0, 0.0003, 0.001, 0.01, 0.3)
LIMITS = ((None, 2.0**24), (1.0, 2.0**24), (128.0, 2.0**17), (None, 2.0**10))


def main():
    for seed, (rate, (low, high)) in enumerate(itertools.product(RATES, LIMITS)):
        draws = random.Random(seed)
        theirs = ApexLossScaler("dynamic", min_loss_scale=low, max_loss_scale=high)
        ours = LossScaler("dynamic", low, high)
        for step in range(STEPS):
            overflow = theirs._has_overflow = draws.random() < rate
            skips = bool(theirs.update_scale()), ours.update(overflow)
            states = (theirs._loss_scale, theirs._unskipped), (ours.loss_scale, ours.unskipped)
            assert skips[0] == skips[1] and states[0] == states[1], (rate, low, high, step, states)
    print(f"{len(RATES) * len(LIMITS)} runs of {STEPS} steps are equal")


if __name__ == "__main__":
    main()
