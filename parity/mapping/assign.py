"""The cheapest one-to-one assignment, by shortest augmenting paths."""

import numpy as np

from parity.mapping.transforms import Array

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
    # A column of its own for every row, dearer than anything allowed and cheaper than what is forbidden.
    padded = np.concatenate([np.minimum(costs, FORBIDDEN), np.full((rows, rows), FORBIDDEN / 1e3)], axis=1)
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
    for each, at in visited:
        over_rows[each] += spent - at
    over_columns[done] += np.minimum(distance[done] - spent, 0.0)
    while column >= 0:
        previous = int(before[column])
        owner[column] = owner[previous] if previous >= 0 else row
        column = previous
