"""Gradients combined wrongly: found wherever the port combines by itself; where the tool does, the verdict line says so."""

import contextlib
import dataclasses
import sys
from pathlib import Path

import pytest
from support.tiers import covering

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "benchmarks" / "aggregation"
# The sparse half, against live towers' golden trace; pairs of choices are the slow test's, the whole table the bench's.
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
@pytest.mark.timeout(900)
def test_cells_with_every_pair_of_choices_are_as_they_have_to_be(table, bench):
    cells = list(table.cells([*table.RIGHT, *table.WAYS]))
    chosen = [cells[place] for place in sorted(covering([dataclasses.astuple(cell) for cell in cells], 2))]
    assert {cell.way for cell in chosen} == {*table.RIGHT, *table.WAYS}
    assert [(cell, got) for cell in chosen if (got := bench.judge(cell)) != cell.wanted] == []
