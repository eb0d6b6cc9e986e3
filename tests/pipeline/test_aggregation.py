"""Gradients combined wrongly: found wherever the port combines by itself; where the tool does, the verdict line says so."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "benchmarks" / "aggregation"
# The sparse half, against live towers' golden trace; the whole table is the slow test's.
SAMPLE = [
    ("right", "step", "same"),
    ("right", "wrapper", "same"),
    ("right", "neither", "said"),
    ("right_by_hand", "step", "same"),
    ("module_called", "neither", "found"),
    ("no_sync_left_on", "neither", "found"),
    ("kernel_left_out", "neither", "found"),
    ("table_left_out", "wrapper", "found"),
    ("sum_for_mean", "wrapper", "found"),
    ("one_rank_alone", "wrapper", "found"),
    ("rows_summed", "step", "found"),
    ("weights_shared", "step", "found"),
    ("last_half_alone", "step", "found"),
    ("stale", "neither", "said"),
]


@pytest.fixture(scope="module")
def table():
    sys.path.insert(0, str(BENCH))
    try:
        import table

        yield table
    finally:
        sys.path.remove(str(BENCH))


@pytest.fixture(scope="module")
def bench(table, tmp_path_factory, tf2_sides):
    def ready():
        tf2_sides.outlive_failure()
        return tf2_sides

    return table.Bench(tmp_path_factory.mktemp("cells"), ready, lambda: contextlib.nullcontext(tf2_sides))


@pytest.mark.parametrize(("way", "setting", "outcome"), SAMPLE)
def test_a_sample_of_the_cells_is_as_it_has_to_be(table, bench, way, setting, outcome):
    cell = table.Cell(way, "sparse", "run", setting)
    assert cell.wanted == outcome
    assert bench.judge(cell) == outcome


def test_there_are_thirty_ways_in_every_setting(table):
    assert len(table.WAYS) >= 30
    cells = list(table.cells(table.WAYS))
    for against in ("run", "replay"):
        for kind in ("dense", "sparse"):
            ways = {cell.way for cell in cells if (cell.against, cell.kind) == (against, kind)}
            assert len(ways) >= 29 if against == "replay" else len(ways) >= 30
    assert {cell.setting for cell in cells} == {"step", "wrapper", "neither"}
    assert all(cell.wanted == "found" for cell in cells if cell.setting != "neither")


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_every_cell_is_as_it_has_to_be():
    done = subprocess.run(
        [sys.executable, str(BENCH / "table.py")], capture_output=True, text=True, timeout=2900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
