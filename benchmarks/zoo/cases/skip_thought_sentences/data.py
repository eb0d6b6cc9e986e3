"""Three sentences in a row: the middle one is encoded, its neighbours are to be decoded. Words drift from topic to topic; 0 pads."""
import numpy as np

VOCAB, LONGEST = 45, 7


def batches(steps, batch_size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        batch = {}
        topic = rng.integers(1, VOCAB - 12, batch_size)
        for name in ("decode_pre", "encode", "decode_post"):
            lengths = rng.integers(2, LONGEST + 1, batch_size)
            mask = np.arange(LONGEST) < lengths[:, None]
            words = topic[:, None] + rng.integers(0, 12, (batch_size, LONGEST))
            batch[name + "_ids"] = np.where(mask, words, 0).astype("int32")
            batch[name + "_mask"] = mask.astype("float32")
            topic = np.clip(topic + rng.integers(-2, 3, batch_size), 1, VOCAB - 12)
        yield batch
