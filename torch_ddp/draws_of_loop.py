"""Hands out what a script drew inside one loop: time by time, or for all times at once."""

from collections.abc import Sequence

from torch import Tensor


class DrawsOfLoop:
    """The draws of the random ops of one loop of a script.

    A port with a loop of its own draws as the script does: in every iteration once for each random op, in their order. A
    port that treats all times at once draws the whole: ``[times, …]``, or ``[batch, times, …]`` where only that fits.

    Args:
      draws: list over the random ops of ``[times, …]``.
    """

    def __init__(self, draws: Sequence[Tensor]) -> None:
        self._draws = list(draws)
        self._taken = [0] * len(self._draws)

    @property
    def left(self) -> int:
        """The number of draws, each time counted, that were not taken."""
        return sum(len(draw) - taken for draw, taken in zip(self._draws, self._taken, strict=True))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """What the ops drew each time."""
        return [tuple(draw.shape[1:]) for draw in self._draws]

    def take(self, shape: Sequence[int]) -> Tensor | None:
        """Returns the next draw of a shape, or None where there is none."""
        wanted = tuple(shape)
        order = sorted(range(len(self._draws)), key=lambda place: (self._taken[place], place))
        for place in order:
            draw, taken = self._draws[place], self._taken[place]
            if taken < len(draw) and tuple(draw.shape[1:]) == wanted:
                self._taken[place] += 1
                return draw[taken]
        for place in order:
            whole = self._whole(place, wanted)
            if whole is not None:
                self._taken[place] = len(self._draws[place])
                return whole
        return None

    def _whole(self, place: int, wanted: tuple[int, ...]) -> Tensor | None:
        draw = self._draws[place]
        if self._taken[place] or draw.ndim < 2:
            return None
        for fitting in (draw, draw.transpose(0, 1)):
            if tuple(fitting.shape) == wanted:
                return fitting
        return None
