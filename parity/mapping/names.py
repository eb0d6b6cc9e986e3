"""Brings the naming habits of TensorFlow and torch to one form."""

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

ROLES = {
    **dict.fromkeys(("kernel", "weights", "weight", "w", "gamma", "embeddings"), "weight"),
    **dict.fromkeys(("bias", "biases", "b", "beta"), "bias"),
    **dict.fromkeys(("moving_mean", "running_mean"), "mean"),
    **dict.fromkeys(("moving_variance", "running_var"), "variance"),
}


class Meaning(NamedTuple):
    """What a variable's name says.

    Fields:
      where: words and numbers of the layer, e.g. ("layer", "1", "conv").
      role: "weight", "bias", "mean", "variance", or "" where the name does not say.
    """

    where: tuple[str, ...]
    role: str


def meanings(names: Sequence[str]) -> list[Meaning]:
    """Returns what each name of one side says, the scopes that all of them share left out.

    "module/Conv_1/kernel:0" and "conv1.weight" say the same.
    """
    split = [_components(name) for name in names]
    shared = 0
    while split and all(_says_more(parts[shared + 1 :]) for parts in split) and len({p[shared] for p in split}) == 1:
        shared += 1
    return [_meaning(parts[shared:]) for parts in split]


def alike(one: Meaning, other: Meaning) -> float:
    """Returns how much two names say the same, 0 to 1: words in common, and no contradiction in the role."""
    if one.role and other.role and one.role != other.role:
        return 0.0
    words = difflib.SequenceMatcher(None, " ".join(one.where), " ".join(other.where), autojunk=False).ratio()
    return 0.25 * (one.role == other.role) + 0.75 * words


def _says_more(parts: list[str]) -> bool:
    # "kernel" alone names no layer, "hidden1_weights" does.
    return len(parts) > 1 or (len(parts) == 1 and re.sub(r"_?\d+$", "", parts[0]) not in ROLES)


def _components(name: str) -> list[str]:
    parts = [part for part in re.split(r"[/.]", name.lower().removesuffix(":0")) if part]
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    return parts


def _meaning(components: list[str]) -> Meaning:
    *scopes, last = components
    stem, number = re.fullmatch(r"(.*?)_?(\d*)", last, re.DOTALL).groups()  # type: ignore[union-attr]
    role = ROLES.get(last) or ROLES.get(stem, "")
    rest = ([number] if number and last not in ROLES else []) if role else [last]
    return Meaning(_words([*scopes, *rest]), role)


def _words(components: list[str]) -> tuple[str, ...]:
    # Letters run together over separators, numbers do not: batch_norm is batchnorm, conv_1 is conv1, 1.0 is not 10.
    found: list[str] = []
    for token in re.findall(r"\d+|[^\W\d_]+", " ".join(components)):
        if token == "fn":
            continue
        if found and not token.isdigit() and not found[-1].isdigit():
            found[-1] += token
        else:
            found.append(token)
    return tuple(found)
