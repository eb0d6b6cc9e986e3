"""The assignment of rows to columns of the lowest total cost."""

import numpy as np

from parity.trace.arrays import Array

# A thousandth of it stands for no column at all, 1e6: more than 8,000 exchanges of partners can cost, at no more than
# 112 each and some places of order, so that no variable goes without a partner for the sake of others. In float64 sums
# with it still show differences of 1e-6, far below a place of order.
FORBIDDEN = 1e9


def assign(costs: Array) -> list[int | None]:
    """Returns for every row the column that it gets in the assignment of the lowest total cost, None where it gets none.

    Args:
      costs: float ``[rows, columns]``; `FORBIDDEN` where a row may not get a column. As many rows as can be get one.

    Source: Jonker and Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment problems",
    Computing 38, 1987; potentials as in Kuhn and Munkres, O(rows^2 columns).
    """
    rows, columns = costs.shape
    if not rows or not columns:
        return [None] * rows
    # (rows, columns + rows): a column of its own for every row, dearer than anything allowed and cheaper than what is
    # forbidden, so that there always is an assignment, and a row goes without only where no column is left for it.
    padded = np.concatenate([np.minimum(costs, FORBIDDEN), np.full((rows, rows), FORBIDDEN / 1e3)], axis=1)
    # The dual potentials, (rows,) and (columns + rows,).
    over_rows, over_columns = np.zeros(rows), np.zeros(columns + rows)
    owner = np.full(columns + rows, -1)
    for row in range(rows):
        _augment(padded, row, over_rows, over_columns, owner)
    found: list[int | None] = [None] * rows
    for column in range(columns):
        if owner[column] >= 0 and costs[owner[column], column] < FORBIDDEN:
            found[owner[column]] = column
    return found


def _augment(costs: Array, row: int, over_rows: Array, over_columns: Array, owner: Array) -> None:
    """Gives `row` a column, moving others along the cheapest path; the potentials keep all reduced costs at 0 or more."""
    count = costs.shape[1]
    distance, before = np.full(count, np.inf), np.full(count, -1)
    done = np.zeros(count, bool)
    reached, spent, column = row, 0.0, -1
    visited: list[tuple[int, float]] = [(row, 0.0)]
    # Dijkstra over columns: distance[c] is the least reduced cost of a path of exchanges that ends at column c, by way
    # of before[c]; it is final for every column that is done. The first free one ends the search.
    while True:
        reduced = spent + costs[reached] - over_rows[reached] - over_columns
        nearer = ~done & (reduced < distance)
        distance[nearer], before[nearer] = reduced[nearer], column
        column = int(np.argmin(np.where(done, np.inf, distance)))
        spent, done[column] = float(distance[column]), True
        if owner[column] < 0:
            break
        reached = int(owner[column])
        visited.append((reached, spent))
    # Keeps costs - over_rows - over_columns >= 0, and = 0 for every owned column: that is what makes the total the
    # lowest.
    for each, at in visited:
        over_rows[each] += spent - at
    over_columns[done] += np.minimum(distance[done] - spent, 0.0)
    while column >= 0:  # back along the path: each column goes to the row that owned the one before it
        previous = int(before[column])
        owner[column] = owner[previous] if previous >= 0 else row
        column = previous
