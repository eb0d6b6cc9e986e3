"""Which of the candidate's optimizer slots is which of TensorFlow's."""

from collections.abc import Collection

# What torch.optim calls in its state what a TensorFlow 1 optimizer keeps under a slot name.
TORCH_SLOTS: dict[str, tuple[str, ...]] = {
    "momentum": ("momentum_buffer",),
    # An update that a script writes itself has an "m" of gradients and a "v" of their squares, whatever is made of them.
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
