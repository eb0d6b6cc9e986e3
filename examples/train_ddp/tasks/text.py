"""Text, letter by letter: a small causal transformer that guesses the next one.

The text is ``--data FILE``, or else the manual that Python itself carries (``pydoc_data.topics``): nothing is downloaded.
"""

import argparse
import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tasks.task import Task, adam, classification_loss, classification_metrics, classification_sums

LETTERS = 128  # of ASCII; all others are one letter, 0
HELD_OUT = 10  # the last tenth
MOST = 200_000  # letters of the manual


def task(options: argparse.Namespace) -> Task:
    """Returns the task; `size` is the number of letters that are seen at once."""
    length = options.size or 64
    letters = encoded(Path(options.data).read_text(encoding="utf-8") if options.data else manual())
    cut = len(letters) - len(letters) // HELD_OUT
    return Task(
        training=Passages(letters[:cut], length),
        held_out=Passages(letters[cut:], length),
        model=functools.partial(Transformer, length),
        optimizer=adam,
        learning_rate=2e-3,
        batch_size=64,
        loss=classification_loss,
        sums=classification_sums,
        metrics=classification_metrics,
    )


def manual() -> str:
    """Returns text that Python carries."""
    from pydoc_data import topics

    return "\n".join(topics.topics[name] for name in sorted(topics.topics))[:MOST]


def encoded(text: str) -> Tensor:
    """Returns the letters' numbers, int64 ``[letters]``."""
    return torch.tensor([ord(letter) if ord(letter) < LETTERS else 0 for letter in text])


class Passages(Dataset[Any]):
    """Passages of a text, one behind the other: letters int64 ``[length]`` and the letters that follow each of them."""

    def __init__(self, letters: Tensor, length: int) -> None:
        self._letters, self._length = letters, length

    def __len__(self) -> int:
        return (len(self._letters) - 1) // self._length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        begin, end = index * self._length, (index + 1) * self._length
        return self._letters[begin:end], self._letters[begin + 1 : end + 1]


class Transformer(nn.Module):
    """Maps letters ``[n, length]`` to logits of the next ones ``[n, 128, length]``."""

    def __init__(self, length: int, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, LETTERS)

    def forward(self, letters: Tensor) -> Tensor:
        x = self.letters(letters) + self.places
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x)).transpose(1, 2)


class Block(nn.Module):
    """Attends to the letters before, then works on each by itself: ``[n, length, width]`` to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        # [3, n, heads, length, width of a head]
        query, key, value = (
            self.attention(self.before_attention(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.output(attended.transpose(1, 2).reshape(n, length, width)))
        return x + self.dropout(self.layers(self.before_layers(x)))
