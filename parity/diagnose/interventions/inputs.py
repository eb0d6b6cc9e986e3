"""What a port may do to its inputs before the first recorded layer, undone."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from parity.diagnose.catalogue import describe
from parity.diagnose.interventions.protocol import Change
from parity.trace import batch_input
from parity.trace.arrays import Array, Tensors

# Factor, its words, and those of the port's; pixels in 0..255 or 0..1, and doublings.
SCALES = ((255.0, "255", "1/255"), (1 / 255.0, "1/255", "255"), (2.0, "2", "1/2"), (0.5, "1/2", "2"))


def changes_of_the_order(towers: int) -> Iterator[Change]:
    """Yields the change that undoes dealing the examples out in turn."""
    if towers > 1:
        yield Change(
            *describe("order_of_examples", "dealt"),
            "fed with the batch in the order that undoes dealing it out",
            batch=lambda batch: {name: _dealt_back(value, towers) for name, value in batch.items()},
        )


def changes_of_the_inputs(batch: Tensors, widths: Iterable[int] = ()) -> Iterator[Change]:
    """Yields what undoes the usual mistakes in reading each input.

    Args:
      batch: the whole batch, in the candidate's layout.
      widths: numbers of classes that labels may have, beside the largest in the batch and one.
    """
    for name, value in batch.items():
        plain = batch_input(name)

        def only(change: Callable[[Array], Array], name: str = name) -> Callable[[Tensors], Tensors]:
            return lambda batch: {**batch, name: np.ascontiguousarray(change(batch[name]))}

        if value.ndim == 4 and value.dtype.kind == "f":
            # The batch is the candidate's: channels may come first or last, two neighbouring axes are height and width.
            for axes in ((1, 2), (2, 3)):
                if value.shape[axes[0]] == value.shape[axes[1]]:
                    yield Change(
                        *describe("transposed_input", "image", input=plain),
                        f"with axes {axes[0]} and {axes[1]} of {plain} exchanged",
                        batch=only(lambda x, axes=axes: np.swapaxes(x, *axes)),  # type: ignore[misc]
                    )
            for axis in (1, 2, 3):
                if value.shape[axis] > 1:
                    yield Change(
                        *describe("reversed_input", "axis", axis=axis, input=plain),
                        f"with axis {axis} of {plain} reversed",
                        batch=only(lambda x, axis=axis: np.flip(x, axis)),  # type: ignore[misc]
                    )
        # Labels of each pixel, of images as high as wide.
        if value.ndim == 3 and value.dtype.kind in "iu" and value.shape[1] == value.shape[2] > 1:
            yield Change(
                *describe("transposed_input", "image", input=plain),
                f"with axes 1 and 2 of {plain} exchanged",
                batch=only(lambda x: np.swapaxes(x, 1, 2)),
            )
        if value.dtype.kind == "f":
            for factor, text, inverse in SCALES:
                yield Change(
                    *describe("input_scale", "power", input=plain, inverse=inverse),
                    f"with {plain} times {text}",
                    batch=only(lambda x, factor=factor: (x * factor).astype(x.dtype)),  # type: ignore[misc]
                )
        elif value.dtype.kind in "iu" and value.ndim == 2 and value.shape[1] > 1:
            yield Change(
                *describe("reversed_input", "sequence", input=plain),
                f"with {plain} reversed",
                batch=only(lambda x: x[:, ::-1]),
            )
            for step in (-1, 1):
                yield Change(
                    *describe("rolled_input", input=plain, late="late" if step < 0 else "early"),
                    f"with {plain} rolled by {step:+d} along its second axis",
                    batch=only(lambda x, step=step: np.roll(x, step, 1)),  # type: ignore[misc]
                )
        elif value.dtype.kind in "iu" and value.ndim == 1:
            for step, classes in [(step, count) for step in (-1, 1) for count in _classes(value, widths)]:
                yield Change(
                    *describe("labels_shifted", "classes", input=plain, by=-step),
                    f"with {plain} shifted by {step:+d}",
                    batch=only(lambda x, step=step, n=classes: ((x.astype(np.int64) + step) % n).astype(x.dtype)),  # type: ignore[misc]
                )


def _classes(labels: Array, widths: Iterable[int]) -> list[int]:
    # A shift wraps around at the number of classes, of which a batch need not show the last.
    seen = int(labels.max()) + 1
    return sorted({seen, min((width for width in widths if width > seen), default=seen)})


def _dealt_back(value: Array, towers: int) -> Array:
    # Example k goes to rank k mod n: `dealt` is the order in which the ranks, one after the other, then read.
    dealt = np.concatenate([np.arange(tower, len(value), towers) for tower in range(towers)])
    back = np.empty_like(value)
    back[dealt] = value
    return back
