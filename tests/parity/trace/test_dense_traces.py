import numpy as np
import pytest

from parity.experiment.sides.densify import DenseTrace
from parity.trace import Perturbation, TraceWriter, parse_key, perturb


def test_rows_are_read_as_a_dense_gradient_and_doubled_ones_added_up(tmp_path):
    shapes = {
        name: {"shape": shape, "dtype": "float32", "kind": "weight"} for name, shape in (("a.b", [4, 2]), ("w", [1]))
    }
    writer = TraceWriter(tmp_path / "t", {}, {}, shapes)
    writer.init({"var/w": np.ones(1, np.float32)})
    values = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    writer.step(
        0,
        {
            "grad/a.b.values": values,
            "grad/a.b.indices": np.array([2, 0, 2]),
            "grad/w": np.ones(1, np.float32),
            "act/0/x.values": np.zeros(2, np.float32),
        },
    )
    writer.close()
    trace = DenseTrace(tmp_path / "t")
    file = trace.step(0)
    assert file.names() == ["grad/a.b", "grad/w", "act/0/x.values"]
    assert "grad/a.b" in file and "grad/w" in file and "grad/x" not in file
    assert (file.shape("grad/a.b"), file.dtype("grad/a.b"), file.shape("grad/w")) == ((4, 2), "float32", (1,))
    np.testing.assert_array_equal(file.read("grad/a.b"), [[3, 4], [0, 0], [6, 8], [0, 0]])
    np.testing.assert_array_equal(file.read("grad/w"), [1])
    assert trace.init().names() == ["var/w"]


@pytest.mark.parametrize("lacking", ["values", "indices"])
def test_half_of_a_sparse_gradient_is_no_dense_one(tmp_path, lacking):
    tensors = {"grad/t.values": np.ones((1, 2), np.float32), "grad/t.indices": np.array([1])}
    del tensors[f"grad/t.{lacking}"]
    file = dense(tmp_path, tensors)
    [left] = tensors
    assert file.names() == [left] and left in file and "grad/t" not in file
    assert file.shape(left) == np.shape(tensors[left]) and file.read(left).tolist() == tensors[left].tolist()


def test_names_are_those_of_the_quantities_asked_for_in_the_order_of_the_file(tmp_path):
    rows = np.ones((2, 2), np.float64), np.array([1, 1])
    tensors = {"var/w": np.ones(1), "grad/t.values": rows[0], "grad/t.indices": rows[1]}
    tensors["tower_grad/0/t.indices"], tensors["tower_grad/0/t.values"] = rows[::-1]
    file = dense(tmp_path, tensors)
    assert file.names("grad") == ["grad/t"] and file.names("tower_grad", "var") == ["var/w", "tower_grad/0/t"]
    key = parse_key("tower_grad/0/t")
    assert (file.shape(key), file.dtype(key), file.read(key).tolist()) == (
        (3, 2),
        "float64",
        [[0, 0], [2, 2], [0, 0]],
    )
    assert "grad/t.values" in file and file.dtype("grad/t.indices") == "int64"


def dense(folder, tensors):
    variables = {"t": {"shape": [3, 2], "dtype": "float32", "kind": "weight"}}
    writer = TraceWriter(folder / "t", {}, {}, variables)
    writer.init({})
    writer.step(0, tensors)
    writer.close()
    return DenseTrace(folder / "t").step(0)


def shuffled(seed, uneven):
    return Perturbation("sample_order", "feed", seed, shards=3, uneven=uneven)


def test_examples_change_places_within_the_shards_of_every_policy_and_none_is_lost():
    batch = {"feed/x": np.arange(11), "feed/y": np.arange(11) * 2}
    shards = {"drop": [(0, 3), (3, 6), (6, 9), (9, 10), (10, 11)], "sizes": [(0, 4), (4, 8), (8, 11)]}
    shards["pad"] = [(0, 4), (4, 8), (8, 10), (10, 11)]
    for uneven, bounds in shards.items():
        orders = [perturb(batch, [shuffled(seed, uneven)])["feed/x"] for seed in range(20)]
        for order in orders:
            for low, high in bounds:
                assert sorted(order[low:high]) == list(range(low, high)), uneven
        assert any((order != np.arange(11)).any() for order in orders)
    moved = perturb(batch, [shuffled(1, "sizes")])
    np.testing.assert_array_equal(moved["feed/y"], 2 * moved["feed/x"])
