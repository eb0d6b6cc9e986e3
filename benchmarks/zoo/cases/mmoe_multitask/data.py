"""Impressions: whether there was a click, whether a purchase followed it, and how long the visitor stayed."""
import numpy as np

SEGMENTS, CATEGORIES, NUMERIC = 13, 29, 7
TASKS, EXPERTS, KEEP = 3, 4, 0.85


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    segment_taste = rng.standard_normal((SEGMENTS, 3))
    category_topic = rng.standard_normal((CATEGORIES, 3))
    w = rng.standard_normal((NUMERIC, 3)) * 0.5
    frequency = 1.0 / np.arange(1, CATEGORIES + 1)
    frequency /= frequency.sum()
    scale = np.array([1.5, 0.4, 3.0, 1.0, 2.0, 0.7, 1.2])
    shift = np.array([2.0, 0.3, -1.0, 0.5, 4.0, 0.0, 1.0])
    for _ in range(steps):
        segment = rng.integers(0, SEGMENTS, batch_size)
        category = rng.choice(CATEGORIES, batch_size, p=frequency)
        plain = rng.standard_normal((batch_size, NUMERIC))
        affinity = (segment_taste[segment] * category_topic[category]).sum(1)
        score = plain @ w
        sigmoid = lambda z: 1 / (1 + np.exp(-z))
        click = rng.random(batch_size) < sigmoid(affinity + score[:, 0] - 0.2)
        purchase = click & (rng.random(batch_size) < sigmoid(affinity + score[:, 1] - 0.8))
        dwell = np.where(click, np.maximum(0, 3 + affinity + score[:, 2] + 2 * rng.standard_normal(batch_size)), 0)
        gate_dropout = (rng.random((batch_size, TASKS, EXPERTS)) < KEEP) / KEEP
        yield {
            "numeric": (plain * scale + shift).astype(np.float32),
            "segment": segment.astype(np.int64),
            "category": category.astype(np.int64),
            "click": click.astype(np.float32),
            "purchase": purchase.astype(np.float32),
            "dwell": dwell.astype(np.float32),
            "gate_dropout": gate_dropout.astype(np.float32),
        }
