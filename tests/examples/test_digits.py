"""The images that the examples train on: scikit-learn's digits, or MNIST's own files."""

import gzip
import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest

spec = importlib.util.spec_from_file_location("digits", Path(__file__).parents[2] / "examples" / "digits.py")
digits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(digits)


def write_idx(path, values, zipped=False):
    data = (
        struct.pack(">BBBB", 0, 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    )
    path.with_name(path.name + ".gz" * zipped).write_bytes(gzip.compress(data) if zipped else data)


@pytest.fixture
def mnist():
    random = np.random.default_rng(0)
    return random.integers(0, 256, (12, 28, 28), np.uint8), random.integers(0, 10, 12, np.uint8)


def test_digits_of_scikit_learn_are_enlarged_to_the_size_of_mnist():
    images, labels = digits.load()
    assert images.shape == (1797, 28, 28, 1) and images.dtype == np.float32
    assert labels.shape == (1797,) and labels.dtype == np.int32
    assert images.min() == 0.0 and images.max() == 1.0
    assert sorted(set(labels.tolist())) == list(range(10))


def test_enlarging_keeps_constants_and_the_order_of_rows_and_columns():
    assert np.allclose(digits.enlarge(np.full((1, 8, 8), 0.25)), 0.25, atol=1e-15)
    ramp = digits.enlarge(np.arange(8.0)[None, :, None] * np.ones((1, 1, 8)))[0]
    assert (np.diff(ramp[:, 0]) >= 0).all() and (np.diff(ramp[0]) == 0).all()


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_the_files_of_mnist_are_read_where_a_folder_is_named(tmp_path, monkeypatch, mnist, zipped):
    images, labels = mnist
    write_idx(tmp_path / "train-images-idx3-ubyte", images, zipped)
    write_idx(tmp_path / "train-labels-idx1-ubyte", labels, zipped)
    monkeypatch.setenv("MNIST_DIR", str(tmp_path))
    read, read_labels = digits.load()
    np.testing.assert_array_equal(read[..., 0], images.astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(read_labels, labels)
    (batch,) = digits.batches(steps=1, batch_size=4, seed=0)
    assert batch["images"].shape == (4, 28, 28, 1)


def test_batches_are_the_same_for_a_seed_and_shuffled_anew_in_every_epoch(tmp_path, monkeypatch, mnist):
    images, _ = mnist
    write_idx(tmp_path / "train-images-idx3-ubyte", images)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.arange(12, dtype=np.uint8))
    monkeypatch.setenv("MNIST_DIR", str(tmp_path))
    drawn = [batch["labels"].tolist() for batch in digits.batches(steps=6, batch_size=4, seed=1)]
    again = [batch["labels"].tolist() for batch in digits.batches(steps=6, batch_size=4, seed=1)]
    assert drawn == again
    first, second = np.ravel(drawn[:3]).tolist(), np.ravel(drawn[3:]).tolist()
    assert sorted(first) == sorted(second) == list(range(12)) and first != second


def test_a_file_of_something_else_or_cut_short_or_missing_is_refused(tmp_path, mnist):
    path = tmp_path / "train-images-idx3-ubyte"
    with pytest.raises(ValueError, match=r"got no such file. Check MNIST_DIR"):
        digits.read_idx(path)
    path.write_bytes(b"not an idx file")
    with pytest.raises(ValueError, match="expected an IDX file of bytes"):
        digits.read_idx(path)
    write_idx(path, mnist[0])
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"expected 9408 bytes in .* got 9403"):
        digits.read_idx(path)


def test_a_batch_larger_than_the_set_is_refused():
    with pytest.raises(ValueError, match="expected a batch of at most 1797 images, got 2000"):
        next(digits.batches(steps=1, batch_size=2000, seed=0))
