"""Naming conventions of TensorFlow's and torch's variables and of their optimizers' slots."""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

ROLES = {
    **dict.fromkeys(("kernel", "weights", "weight", "w", "gamma", "embeddings", "scale"), "weight"),
    **dict.fromkeys(("bias", "biases", "b", "beta", "offset"), "bias"),
    **dict.fromkeys(("moving_mean", "running_mean"), "mean"),
    **dict.fromkeys(("moving_variance", "running_var"), "variance"),
}
_SEPARATOR = re.compile(r"[/.]")
_NUMBER_BEHIND = re.compile(r"_?\d+$")
_STEM_AND_NUMBER = re.compile(r"(.*?)_?(\d*)", re.DOTALL)
_NUMBER_OR_LETTERS = re.compile(r"\d+|[^\W\d_]+")


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
    # Invariant: all names begin with the same `shared` scopes, and say more than those. So "tower/conv/kernel" beside
    # "tower/fc/kernel" is conv and fc, and a model of one variable keeps its name.
    shared = 0
    while split and all(_says_more(parts[shared + 1 :]) for parts in split) and len({p[shared] for p in split}) == 1:
        shared += 1
    return [_meaning(parts[shared:]) for parts in split]


def _says_more(parts: list[str]) -> bool:
    # "kernel" alone names no layer, "hidden1_weights" does.
    return len(parts) > 1 or (len(parts) == 1 and _NUMBER_BEHIND.sub("", parts[0]) not in ROLES)


def _components(name: str) -> list[str]:
    parts = [part for part in _SEPARATOR.split(name.lower().removesuffix(":0")) if part]
    while len(parts) > 1 and parts[0] == "module":  # DataParallel and DDP put it in front, one around the other twice
        parts = parts[1:]
    return parts


def _meaning(components: list[str]) -> Meaning:
    *scopes, last = components or [""]  # of a name like "/" nothing is left
    stem, number = _STEM_AND_NUMBER.fullmatch(last).groups()  # type: ignore[union-attr]
    role = ROLES.get(last) or ROLES.get(stem, "")
    rest = ([number] if number else []) if role else [last]  # "w_1" and "w_2" are of layers 1 and 2
    if not role and "_" in stem:
        first, _, behind = stem.partition("_")
        before, _, end = stem.rpartition("_")
        roles = {ROLES[word] for word in (first, end) if word in ROLES}
        if len(roles) == 1:  # "w_query", "hidden1_weights"; "bias_weights" says neither
            role, rest = roles.pop(), [behind, number] if first in ROLES else [before, number]
    return Meaning(_words([*scopes, *rest]), role)


def renumbered(reference: Sequence[Meaning], candidate: Sequence[Meaning]) -> list[Meaning]:
    """Returns what the candidate's names say, counted as the reference counts.

    One side's layers 1, 2 and 3 are the other's 0, 1 and 2, and 0, 3 and 6 of a `Sequential`: where as many numbers follow
    the same words on both sides, the first is the first.
    """
    counted, own = _numbers(reference), _numbers(candidate)
    moved = {
        words: dict(zip(sorted(numbers), sorted(counted[words]), strict=True))
        for words, numbers in own.items()
        # As many on both sides, or layers are missing and the first need not be the first.
        if len(numbers) == len(counted.get(words, ()))
    }

    def moved_words(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            str(moved.get(_unnumbered(words[:at]), {}).get(int(word), int(word))) if word.isdecimal() else word
            for at, word in enumerate(words)
        )

    return [meaning._replace(where=moved_words(meaning.where)) for meaning in candidate]


def _numbers(meanings: Sequence[Meaning]) -> dict[tuple[str, ...], set[int]]:
    found: dict[tuple[str, ...], set[int]] = {}
    for meaning in meanings:
        for at, word in enumerate(meaning.where):
            if word.isdecimal():
                found.setdefault(_unnumbered(meaning.where[:at]), set()).add(int(word))
    return found


def _unnumbered(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("#" if word.isdecimal() else word for word in words)


def _words(components: list[str]) -> tuple[str, ...]:
    # Letters run together over separators, numbers do not: batch_norm is batchnorm, conv_1 is conv1, 1.0 is not 10.
    found: list[str] = []
    for token in _NUMBER_OR_LETTERS.findall(" ".join(components)):
        if token.isdecimal():
            token = str(int(token))  # "conv01" is conv 1
        if token == "fn":
            continue
        if found and not token.isdecimal() and not found[-1].isdecimal():
            found[-1] += token
        else:
            found.append(token)
    return tuple(found)


# What torch.optim calls in its state what a TensorFlow 1 optimizer keeps under a slot name.
TORCH_SLOTS: dict[str, tuple[str, ...]] = {
    "momentum": ("momentum_buffer",),
    # An update that a script writes itself has an "m" of gradients and a "v" of their squares, whatever is made of
    # them.
    "m": ("exp_avg", "grad_avg", "momentum_buffer"),
    "v": ("exp_avg_sq", "exp_inf", "square_avg"),
    "vhat": ("max_exp_avg_sq",),
    "rms": ("square_avg",),
    "mg": ("grad_avg",),
    "accumulator": ("sum",),
    "accum": ("square_avg",),
    "accum_update": ("acc_delta",),
}


def only_slots_left(reference_slots: Collection[str], candidate_slots: Collection[str]) -> dict[str, str]:
    """Returns a TensorFlow slot and the candidate's where each is the only one that no name joins; else nothing.

    A name that torch's own optimizers use says what the slot is, and is no name of another.

    Args:
      reference_slots: all that the reference keeps.
      candidate_slots: all that the candidate keeps.
    """
    partners = {slot: slot_partner(slot, candidate_slots) for slot in reference_slots}
    left = [slot for slot, partner in partners.items() if partner is None]
    free = sorted(set(candidate_slots) - {partner for partner in partners.values() if partner})
    # "exp_avg_sq" left over beside a momentum is a second moment that the reference lacks, and no momentum.
    known = {name for slot, names in TORCH_SLOTS.items() for name in (slot, *names)}
    return {left[0]: free[0]} if len(left) == len(free) == 1 and free[0] not in known else {}


def slot_partner(tf_slot: str, candidate_slots: Collection[str]) -> str | None:
    """Returns the candidate's name of a TensorFlow slot, or None where it has no such slot.

    Args:
      tf_slot: e.g. "momentum", "m"; case does not matter.
      candidate_slots: names that the candidate's optimizer uses; TensorFlow's own name is preferred.

    Source: tensorflow/python/training/*.py (1.15), `_create_slots`; torch/optim/*.py, `state`.
    """
    slot = tf_slot.lower()
    # Optimizers that are written by hand keep "adam_m" and the like.
    last = slot.rpartition("_")[2]
    names = (slot, *TORCH_SLOTS.get(slot, ()), last, *TORCH_SLOTS.get(last, ()))
    return next((name for name in names if name in candidate_slots), None)
