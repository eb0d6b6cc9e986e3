"""What amp adds to a checkpoint: the loss scalers in Apex's format, and the master weights."""

import warnings
from typing import Any

import torch
from torch import nn

from torch_ddp.amp.errors import AmpError
from torch_ddp.amp.loss_scaler import LossScaler
from torch_ddp.amp.optimizer_state import follow_weights, make_masters, masters_to_weights, stash_of
from torch_ddp.amp.session import Session, current, optimizers_of_all_calls

MASTERS = "master_weights"


def state_dict(destination: dict[str, Any] | None = None, *, master_weights: bool = True) -> dict[str, Any]:
    """Returns the state of amp, to be saved beside those of model and optimizer.

    Args:
        destination: a dict to write into; None makes one.
        master_weights: whether to add the float32 masters, by optimizer and in its order. Without them, and from Apex
            always, a run at O2 goes on from rounded weights.

    Returns:
        `{"loss_scaler0": {"loss_scale": float, "unskipped": int}, …}` and, where there are masters, "master_weights":
        a list of lists of float32 tensors.

    Raises:
        AmpError: `initialize` was not called.
    """
    session = current("amp.state_dict")
    state = {} if destination is None else destination
    for index, scaler in enumerate(session.scalers):
        # Apex's own keys and types: its checkpoints load here, and these there but for the masters.
        state[f"loss_scaler{index}"] = {"loss_scale": scaler.loss_scale, "unskipped": scaler.unskipped}
    masters = _masters(session)
    if master_weights and any(masters):
        state[MASTERS] = [[master.detach() for master in one] for one in masters]
    return state


def load_state_dict(state_dict: dict[str, Any]) -> None:
    """Restores the state of amp, after `initialize`; before or after model and optimizer.

    Scalers are taken by position, as in Apex; of more or fewer than there are, a warning tells.

    Args:
        state_dict: from `state_dict`, or from Apex.

    Raises:
        AmpError: `initialize` was not called, a key is unknown, or the masters are those of other weights.
    """
    session = current("amp.load_state_dict")
    unknown = [key for key in state_dict if not (key.startswith("loss_scaler") or key == MASTERS)]
    if unknown:
        raise AmpError(
            f"amp.load_state_dict: expected keys loss_scaler0, loss_scaler1, … and {MASTERS}, got {unknown}. "
            "Pass what amp.state_dict returned."
        )
    _load_scalers(session.scalers, [value for key, value in state_dict.items() if key != MASTERS])
    if MASTERS in state_dict:
        _load_masters(session, state_dict[MASTERS])


def _load_scalers(scalers: list[LossScaler], saved: list[dict[str, Any]]) -> None:
    if len(saved) != len(scalers):
        warnings.warn(
            f"amp.load_state_dict: expected {len(scalers)} loss scalers, got {len(saved)}; the first "
            f"{min(len(saved), len(scalers))} are restored. Pass the same num_losses to amp.initialize.",
            stacklevel=3,
        )
    for scaler, values in zip(scalers, saved, strict=False):
        # By position, as in Apex, whose keys only number them.
        scaler.set_state(float(values["loss_scale"]), int(values["unskipped"]))


def _load_masters(session: Session, saved: list[list[torch.Tensor]]) -> None:
    if len(saved) != len(session.optimizers) and len(saved) == len(everyone := optimizers_of_all_calls()):
        # Saved when optimizers of several calls trained along; they join again.
        session.optimizers = everyone
    masters = _masters(session)
    shapes = [[tuple(master.shape) for master in one] for one in masters]
    got = [[tuple(master.shape) for master in one] for one in saved]
    if shapes != got:
        raise AmpError(
            f"amp.load_state_dict: expected master weights of shapes {shapes} by optimizer, got {got}. "
            "Initialize the same models and optimizers in the same order."
        )
    with torch.no_grad():
        for one, values in zip(masters, saved, strict=True):
            for master, value in zip(one, values, strict=True):
                master.copy_(value)
    for optimizer in session.optimizers:
        # Whatever the order of loading: weights that come from the masters are what the masters round to.
        masters_to_weights(stash_of(optimizer, "amp.load_state_dict"))


def follow_loaded_weights(module: nn.Module, incompatible_keys: object) -> None:
    """Copies weights that a model just loaded into their masters: a hook after `load_state_dict`.

    Args:
        module: that loaded; all masters of the session are looked at.
        incompatible_keys: unused.
    """
    session = current("load_state_dict")
    for optimizer in session.optimizers:
        follow_weights(stash_of(optimizer, "load_state_dict"))


def _masters(session: Session) -> list[list[torch.Tensor]]:
    found = []
    for optimizer in session.optimizers:
        stash = stash_of(optimizer, "amp.state_dict")
        # Before a first backward pass there are none yet, and they are needed as places to load into.
        make_masters(optimizer, stash)
        found.append([master for _, master in stash.pairs])
    return found
