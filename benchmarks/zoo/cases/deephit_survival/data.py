"""Patients with two competing risks and censoring, in ten intervals of time. The first mask picks what the likelihood sums: the
interval and cause of an event, or all that comes after a censoring; the second one all intervals up to a patient's own. `keep` is
the mask of the shared layers' dropout, 0 or one over the probability of keeping."""
import numpy as np

FEATURES, INTERVALS, CAUSES, SHARED, KEEP = 11, 10, 2, 24, 0.75


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    risk = rng.normal(0, 0.5, (FEATURES, CAUSES))
    for _ in range(steps):
        x = rng.normal(0, 1, (batch_size, FEATURES))
        x[:, :3] = x[:, :3] > 0.4
        when = np.minimum(rng.exponential(4 * np.exp(-x @ risk)), 20)
        cause, first = when.argmin(1) + 1, when.min(1)
        left = rng.uniform(1, 12, batch_size)
        time = np.minimum(np.minimum(first, left), INTERVALS - 1.01).astype(int)
        event = np.where((first <= left) & (first < INTERVALS - 1), cause, 0)
        mask1 = np.zeros((batch_size, CAUSES, INTERVALS))
        for i in range(batch_size):
            if event[i]:
                mask1[i, event[i] - 1, time[i]] = 1
            else:
                mask1[i, :, time[i] + 1:] = 1
        mask2 = np.arange(INTERVALS)[None] <= time[:, None]
        keep = (rng.random((batch_size, SHARED)) < KEEP) / KEEP
        yield {"x": x.astype("float32"), "k": event[:, None].astype("float32"), "t": time[:, None].astype("float32"),
               "mask1": mask1.astype("float32"), "mask2": mask2.astype("float32"), "keep": keep.astype("float32")}
