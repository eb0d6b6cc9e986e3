"""Which of the candidate's optimizer slots is which of TensorFlow's."""

from collections.abc import Collection

# What torch.optim calls in its state what a TensorFlow 1 optimizer keeps under a slot name.
TORCH_SLOTS: dict[str, tuple[str, ...]] = {
    "momentum": ("momentum_buffer",),
    "m": ("exp_avg",),
    "v": ("exp_avg_sq", "exp_inf"),
    "vhat": ("max_exp_avg_sq",),
    "rms": ("square_avg",),
    "mg": ("grad_avg",),
    "accumulator": ("sum",),
    "accum": ("square_avg",),
    "accum_update": ("acc_delta",),
}


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
