"""Mutates checkpoints of a training: the pickle in their archive, the archive itself, and the state before it is saved."""

import copy
import hashlib
import io
import zipfile
from collections.abc import Sequence
from random import Random
from typing import Any

from .file_mutations import mutated_below, mutated_files
from .inputs import Files
from .mutations import mutated_bytes, mutated_json

# Pickles that call what they name, and others that say they are larger than they are.
PICKLES = (
    b"cos\nsystem\n(S'true'\ntR.",
    b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
    b"\x80\x02cbuiltins\neval\nX\x04\x00\x00\x001+1 \x85R.",
    b"\x80\x02cbuiltins\ngetattr\n.",
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n.",
    b"\x80\x02X\xff\xff\xff\x7f.",
    b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"\x80\x02" + b"]" * 100_000 + b".",
    b"\x80\x02" + b"(" * 100_000 + b".",
    b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.",
    b"\x80\x02\x8b\xff\xff\xff\x7f.",
    b"\x80\x02K\x01.",
    b"\x80\x02N.",
    b".",
    b"",
)
# What an archive's member may say of its own size: a bomb of zeros.
BOMB = 1 << 22


def mutated_checkpoint(draw: Random, files: Files) -> Files:
    """Returns a folder whose newest checkpoint is another, mostly under the name that its content has."""
    [(name, data)] = files.items()
    assert isinstance(data, bytes)
    chance = draw.random()
    if draw.random() < 0.03:
        return mutated_files(draw, files)
    if chance < 0.45:
        data = _other_state(draw, data)
    elif chance < 0.8:
        data = _other_member(draw, data)
    else:
        data = mutated_bytes(draw, data)
    return {name if draw.random() < 0.05 else f"step-{draw.choice((3, 3, 10**9)):010d}-{_digest(data)}.pt": data}


def mutated_shards(draw: Random, known: Sequence[Files]) -> Files:
    """Returns a folder whose checkpoint has its tensors in files beside it, which are others: mostly with their digests."""
    files = dict(draw.choice(known))
    [name] = [each for each in files if each.endswith(".pt")]
    folder = next(each for each in files if each != name).partition("/")[0]
    data = files.pop(name)
    assert isinstance(data, bytes)
    files = mutated_below(draw, files, folder)
    if draw.random() < 0.9:
        shards = {each.partition("/")[2]: _digest(entry) for each, entry in files.items() if isinstance(entry, bytes)}
        data = _with_shards(draw, data, {"folder": folder, "files": shards})
    return {**files, f"step-0000000003-{_digest(data)}.pt": data}


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _with_shards(draw: Random, data: bytes, shards: Any) -> bytes:
    state = _state_of(data)
    chance = draw.random()
    if chance < 0.2:
        state["parts"] = mutated_json(draw, state["parts"])
    elif chance < 0.3:
        shards = mutated_json(draw, shards)
    return _saved({**state, "shards": shards})


_STATES: dict[bytes, Any] = {}


def _other_state(draw: Random, data: bytes) -> bytes:
    return _saved(mutated_json(draw, _state_of(data)))


def _state_of(data: bytes) -> Any:
    import torch

    if data not in _STATES:
        _STATES[data] = torch.load(io.BytesIO(data), weights_only=True)
    return copy.deepcopy(_STATES[data])


def _saved(state: Any) -> bytes:
    import torch

    written = io.BytesIO()
    torch.save(state, written)
    return written.getvalue()


def _other_member(draw: Random, data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    pickled = next(each for each in members if each.endswith("data.pkl"))
    chosen = pickled if draw.random() < 0.7 else draw.choice(list(members))
    chance = draw.random()
    if chance < 0.15:
        members[chosen] = draw.choice(PICKLES)
    elif chance < 0.2:
        members[chosen] = bytes(BOMB)
    elif chance < 0.25:
        del members[chosen]
    elif chance < 0.3:
        members[draw.choice(("../../x", "/tmp/x", "archive/.data/x", "a\x00b"))] = members[chosen]
    else:
        members[chosen] = mutated_bytes(draw, members[chosen], [members[pickled]])
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED if draw.random() < 0.1 else zipfile.ZIP_STORED) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return written.getvalue()
