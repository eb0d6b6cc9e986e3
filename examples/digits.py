"""Real handwritten digits: scikit-learn's 8x8 set enlarged to MNIST's 28x28, or MNIST itself from its IDX files.

Set the environment variable ``MNIST_DIR`` to a folder with ``train-images-idx3-ubyte`` and ``train-labels-idx1-ubyte``
(plain, or gzipped with ``.gz``) to train on the original.
"""

import gzip
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SIDE = 28


def batches(steps: int, batch_size: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Yields `steps` batches: `images` float32 ``[batch, 28, 28, 1]`` in 0 to 1, `labels` int32 ``[batch]``.

    Every epoch is shuffled anew; a batch never spans two epochs.
    """
    images, labels = load()
    if batch_size > len(images):
        raise ValueError(
            f"digits: expected a batch of at most {len(images)} images, got {batch_size}. Make it smaller."
        )
    random = np.random.default_rng(seed)
    order = random.permutation(len(images))
    at = 0
    for _ in range(steps):
        if at + batch_size > len(order):
            order, at = random.permutation(len(images)), 0
        chosen = order[at : at + batch_size]
        at += batch_size
        yield {"images": images[chosen], "labels": labels[chosen]}


def load() -> tuple[np.ndarray, np.ndarray]:
    """Returns all images, float32 ``[n, 28, 28, 1]`` in 0 to 1, and labels, int32 ``[n]``."""
    folder = os.environ.get("MNIST_DIR")
    if folder:
        images = read_idx(Path(folder) / "train-images-idx3-ubyte")
        labels = read_idx(Path(folder) / "train-labels-idx1-ubyte")
        return (images / np.float32(255))[..., None].astype(np.float32), labels.astype(np.int32)
    from sklearn.datasets import load_digits

    digits = load_digits()
    return enlarge(digits.images / 16.0)[..., None].astype(np.float32), digits.target.astype(np.int32)


def enlarge(images: np.ndarray) -> np.ndarray:
    """Enlarges ``[n, h, w]`` to ``[n, 28, 28]`` bilinearly, sampling at pixel centres."""
    rows = _weights(images.shape[1])
    columns = _weights(images.shape[2])
    return np.einsum("ri,nij,cj->nrc", rows, images, columns, optimize=True)


def _weights(size: int) -> np.ndarray:
    at = np.clip((np.arange(SIDE) + 0.5) * size / SIDE - 0.5, 0, size - 1)
    return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(size)[None, :]))


def read_idx(path: Path) -> np.ndarray:
    """Reads an IDX file of unsigned bytes, the format of the original MNIST; `path` may exist with ``.gz`` added.

    Raises:
      ValueError: no such file, or not a whole IDX file of bytes.
    """
    zipped = path.with_name(path.name + ".gz")
    if not path.exists() and not zipped.exists():
        raise ValueError(f"digits: expected {path} (or {zipped.name}), got no such file. Check MNIST_DIR.")
    data = path.read_bytes() if path.exists() else gzip.decompress(zipped.read_bytes())
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise ValueError(f"digits: expected an IDX file of bytes in {path}, got other content. Fetch it again.")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if values.size != np.prod(shape):
        raise ValueError(f"digits: expected {np.prod(shape)} bytes in {path}, got {values.size}. Fetch it again.")
    return values.reshape(shape)
