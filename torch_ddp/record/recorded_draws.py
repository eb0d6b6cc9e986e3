"""Gives recorded draws in place of torch's random functions."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from torch_ddp.errors import TorchDdpError


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
        # The op that is furthest behind first, and of equals the first in the script: iteration by iteration, op by
        # op.
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
        # [times, batch, ...] as recorded, or [batch, times, ...] as batch-first layers draw.
        for fitting in (draw, draw.transpose(0, 1)):
            if tuple(fitting.shape) == wanted:
                return fitting
        return None


INPUT = re.compile(r"recorded_draw_(\d+)(?:_in_loop_(\d+))?")


class RecordedDraws(TorchFunctionMode):
    """Answers torch's random functions, dropout among them, with recorded draws, in order, inside a ``with`` block.

    Uniform draws are taken as TensorFlow's dropout takes them: an element is kept where its draw is at least the rate. Draws
    that TensorFlow made with channels last are handed over with channels first where only that fits.

    Args:
      draws: in the order in which the script draws; uniform in [0, 1) or standard normal. Those of one loop are a
        `DrawsOfLoop`.
      left: takes what is to be said of draws that are left over; None to refuse them.

    Raises:
      TorchDdpError: the port draws more or less often than the script, in another shape, or by a function that has no
        counterpart.
    """

    def __init__(self, draws: Sequence[Tensor | DrawsOfLoop], left: list[str] | None = None) -> None:
        super().__init__()
        self._draws = list(draws)
        self._left = left
        self._taken = 0

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        """Leaves the block; refuses draws that are left over, or says so."""
        super().__exit__(kind, value, traceback)  # type: ignore[no-untyped-call]
        # Not where the block ends by an error, which says more than draws that are left over.
        message = self._left_over() if kind is None else ""
        if message and self._left is None:
            raise TorchDdpError(message)
        if message and self._left is not None:
            self._left.append(message)

    def _left_over(self) -> str:
        loop = self._draws[self._taken] if self._taken < len(self._draws) else None
        if isinstance(loop, DrawsOfLoop):
            return (
                f"draws: expected the port to draw as often as the script does in its loop, got {loop.left} draws left "
                f"over, each of shape {_either(loop.shapes)}. Draw in every iteration: is the port in train mode?"
            )
        if self._taken != len(self._draws):
            return (
                f"draws: expected the port to draw {len(self._draws)} times, as the script does, got {self._taken}. "
                "Draw where the script draws: is the port in train mode?"
            )
        return ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answers a random function from the draws, and lets everything else through."""
        kwargs = kwargs or {}
        answer = ANSWERS_FROM_DRAWS.get(func)
        if answer is not None:
            return answer(self, *args, **kwargs)
        # Refused rather than let through: a draw of torch's own would differ from the script's, and be blamed on the
        # port.
        if func in WITHOUT_COUNTERPART:
            name = getattr(func, "__name__", str(func))
            raise TorchDdpError(
                f"draws: expected dropout, rand, randn, bernoulli_ or the like, got {name}, for which no recorded draw "
                "can be taken. Write it with torch.rand."
            )
        return func(*args, **kwargs)

    def take(self, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
        """Returns the next draw, of `shape`, in `dtype` where one is given."""
        if self._taken == len(self._draws):
            raise TorchDdpError(
                f"draws: expected the port to draw {len(self._draws)} times, as the script does, got one more, of shape "
                f"{tuple(shape)}. Draw where the script draws."
            )
        draw, wanted = self._draws[self._taken], tuple(shape)
        if isinstance(draw, DrawsOfLoop):
            given = self._take_of_loop(draw, wanted)
            return given.to(dtype) if dtype is not None else given
        # NHWC in the script, NCHW in the port; where both fit, as for squares of as many channels, it is taken as
        # recorded.
        if draw.ndim == 4 and tuple(draw.shape) != wanted and tuple(draw.permute(0, 3, 1, 2).shape) == wanted:
            draw = draw.permute(0, 3, 1, 2)
        if tuple(draw.shape) != wanted:
            raise TorchDdpError(
                f"draws: expected draw {self._taken} to be of shape {tuple(draw.shape)}, as recorded, got {wanted}. "
                "Draw in the script's order and layout."
            )
        self._taken += 1
        return draw.to(dtype) if dtype is not None else draw

    def _take_of_loop(self, loop: DrawsOfLoop, wanted: tuple[int, ...]) -> Tensor:
        draw = loop.take(wanted)
        if draw is None:
            raise TorchDdpError(
                f"draws: expected a draw of shape {_either(loop.shapes)}, as in each iteration of the script's loop, or of "
                f"all iterations at once, got {wanted}. Draw in the script's order and layout."
            )
        # The next draws of the script come only when all iterations of this loop are through.
        if not loop.left:
            self._taken += 1
        return draw


def with_recorded_draws(loss: Callable[..., Any], left: list[str] | None = None) -> Callable[..., Any]:
    """Returns a loss function, or a step, that takes draws beside its inputs, and uses them.

    They are called ``recorded_draw_0`` and so on, and ``recorded_draw_1_in_loop_0`` where the first axis is the iterations
    of a loop. `left` is as of `RecordedDraws`.
    """

    @functools.wraps(loss)
    def replayed(*given: Any, **inputs: Tensor) -> Any:
        own: Mapping[str, Tensor] = {name: value for name, value in inputs.items() if not INPUT.fullmatch(name)}
        with RecordedDraws(draws_in_order(inputs), left):
            return loss(*given, **own)

    return replayed


def draws_in_order(inputs: Mapping[str, Tensor]) -> list[Tensor | DrawsOfLoop]:
    """Returns what a mode takes of the draws among inputs, in the order in which the script draws."""
    found = {name: match for name in inputs if (match := INPUT.fullmatch(name))}
    groups: dict[str, list[Tensor]] = {}
    # As numbers: draw 10 comes after draw 9.
    for name in sorted(found, key=lambda each: int(found[each][1])):
        place, loop = found[name].groups()
        groups.setdefault(f"loop {loop}" if loop else place, []).append(inputs[name])
    return [DrawsOfLoop(draws) if group.startswith("loop") else draws[0] for group, draws in groups.items()]


def _either(shapes: Sequence[tuple[int, ...]]) -> str:
    return " or ".join(dict.fromkeys(map(str, shapes)))


def _shape(size: Sequence[Any]) -> Sequence[int]:
    return size[0] if len(size) == 1 and isinstance(size[0], tuple | list) else size


def _drawn(mode: RecordedDraws, *given: Any, size: Any = (), dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return mode.take(_shape(given or size), dtype)


def _drawn_like(mode: RecordedDraws, x: Tensor, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return mode.take(x.shape, dtype or x.dtype)


def _uniform(mode: RecordedDraws, x: Tensor, low: float = 0.0, high: float = 1.0, **_: Any) -> Tensor:
    return x.copy_(mode.take(x.shape, x.dtype) * (high - low) + low)


def _normal(mode: RecordedDraws, x: Tensor, mean: float = 0.0, std: float = 1.0, **_: Any) -> Tensor:
    return x.copy_(mode.take(x.shape, x.dtype) * std + mean)


def _bernoulli(mode: RecordedDraws, x: Tensor, p: Any = None, **_: Any) -> Tensor:
    # At least 1 - p has the probability p, and keeps what dropout of TensorFlow keeps: draws of at least the rate.
    return (mode.take(x.shape) >= 1 - (x if p is None else p)).to(x.dtype)


def _bernoulli_in_place(mode: RecordedDraws, x: Tensor, p: Any = 0.5, **_: Any) -> Tensor:
    return x.copy_(mode.take(x.shape) >= 1 - p)


def _dropout(mode: RecordedDraws, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or p == 0.0:
        return x
    # 1 / (1 - p) rounded once, as TensorFlow 1.15 has it.
    kept = (mode.take(x.shape) >= p).to(x.dtype) / (1.0 - p)
    return x.mul_(kept) if inplace else x * kept


# By function: a mode sees the public ones that a program calls, not the kernels that these call in turn.
ANSWERS_FROM_DRAWS: dict[Any, Callable[..., Tensor]] = {
    torch.rand: _drawn,
    torch.randn: _drawn,
    torch.rand_like: _drawn_like,
    torch.randn_like: _drawn_like,
    Tensor.uniform_: _uniform,
    Tensor.normal_: _normal,
    torch.bernoulli: _bernoulli,
    Tensor.bernoulli: _bernoulli,
    Tensor.bernoulli_: _bernoulli_in_place,
    torch.nn.functional.dropout: _dropout,
    torch.dropout: _dropout,
}
WITHOUT_COUNTERPART = frozenset(
    [
        torch.nn.functional.dropout1d,
        torch.nn.functional.dropout2d,
        torch.nn.functional.dropout3d,
        torch.nn.functional.alpha_dropout,
        torch.nn.functional.feature_alpha_dropout,
        torch.multinomial,
        torch.normal,
        torch.randint,
        torch.randperm,
        torch.poisson,
        Tensor.exponential_,
    ]
)
