"""Turns whole files and folders of a trace into others: files of tensors by their header, folders by what lies in them."""

import functools
import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .inputs import Entry, Files, Folder, Link, Pipe, Sparse
from .mutations import STRINGS, json_text, mutated_bytes, mutated_json, mutated_lines

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U8": 1, "BOOL": 1}
FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e38, -1e38, 1e-40, 1.0, -1.0)


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Returns the header of a file of tensors that is right, without its checksum, and the bytes behind it."""
    (length,) = struct.unpack("<Q", data[:8])
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return header, data[8 + length :]


@functools.lru_cache(maxsize=256)
def _parsed(data: bytes) -> Any:
    """What a seed holds: whoever takes pieces of it copies them."""
    return json.loads(data)


def with_header(header: Any, values: bytes) -> bytes:
    """Returns a file of tensors."""
    text = json_text(header)
    return struct.pack("<Q", len(text)) + text + values


def tensors_of(data: bytes, wanted: Callable[[str], bool]) -> bytes:
    """Returns a file of tensors with some of those of another."""
    header, values = header_of(data)
    chosen = {name: entry for name, entry in header.items() if wanted(name)}
    return _encoded(
        {name: (each["dtype"], each["shape"], values[slice(*each["data_offsets"])]) for name, each in chosen.items()}
    )


def mutated_tensors(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Returns a file of tensors with another header, or with a right header of other tensors."""
    header, values = header_of(data)
    if draw.random() < 0.4:
        return with_header(mutated_json(draw, header), values)
    found = {
        name: (entry["dtype"], entry["shape"], values[slice(*entry["data_offsets"])]) for name, entry in header.items()
    }
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(_TENSORS)(draw, found)
    return _encoded(found)


Tensors = dict[str, tuple[str, list[int], bytes]]


def _encoded(tensors: Tensors) -> bytes:
    header, offset = {}, 0
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(values)]}
        offset += len(values)
    return with_header(header, b"".join(values for _, _, values in tensors.values()))


def _other_shape(draw: Random, tensors: Tensors) -> None:
    # Right in itself, and not what whoever reads it expects of this name.
    name = draw.choice(list(tensors) or ["var/w"])
    dtype = draw.choice(list(SIZES))
    shape = draw.choice(([], [0], [1], [2], [3], [2, 2], [1, 0, 3], [0, 2**40], [1] * 32, [7], [300], [2, 3, 4]))
    count = 1
    for extent in shape:
        count *= extent
    tensors[name] = (dtype, list(shape), draw.randbytes(count * SIZES[dtype]))


def _other_values(draw: Random, tensors: Tensors) -> None:
    for name in draw.sample(list(tensors), min(len(tensors), draw.choice((1, 2, 20)))):
        dtype, shape, values = tensors[name]
        if dtype in ("F32", "F64"):
            number = struct.pack("<f" if dtype == "F32" else "<d", draw.choice(FLOATS))
            values = number * (len(values) // len(number))
        else:
            values = draw.choice((b"\x00", b"\xff", b"\x7f", b"\x80", b"\x01")) * len(values)
        tensors[name] = (dtype, shape, values)


def _other_name(draw: Random, tensors: Tensors) -> None:
    if tensors:
        name = draw.choice(list(tensors))
        other = draw.choice(
            (
                draw.choice(STRINGS),
                name + draw.choice(STRINGS),
                f"section/x/{name}",
                name.replace("/", "//"),
                f"{name}.values",
            )
        )
        tensors[other] = tensors.pop(name) if draw.random() < 0.5 else tensors[name]


def _fewer(draw: Random, tensors: Tensors) -> None:
    if tensors:
        del tensors[draw.choice(list(tensors))]


def _sparse_rows(draw: Random, tensors: Tensors) -> None:
    # The rows of a sparse gradient: indices that are no rows, or values of another number.
    name = draw.choice(
        [each.removesuffix(".values") for each in tensors if each.startswith(("grad/", "section/"))] or ["grad/w"]
    )
    rows = draw.choice((0, 1, 2, 3))
    tensors[f"{name}.values"] = ("F32", [rows, 2], bytes(8 * rows))
    dtype = draw.choice(("I64", "I32", "F32", "U8"))
    tensors[f"{name}.indices"] = (
        dtype,
        [rows],
        draw.choice((b"\x00", b"\xff", b"\x7f", b"\x01")) * (rows * SIZES[dtype]),
    )


_TENSORS = (_other_shape, _other_shape, _other_values, _other_name, _fewer, _sparse_rows)


# ---- files


def mutated_file(draw: Random, name: str, data: bytes, others: Sequence[bytes]) -> bytes:
    """Returns a file's other content, by what its name says that it is."""
    if draw.random() < 0.15:
        return mutated_bytes(draw, data, others)
    try:
        if name.endswith(".safetensors"):
            return mutated_tensors(draw, data, others)
        if name.endswith(".json"):
            return json_text(mutated_json(draw, json.loads(data), [_parsed(each) for each in others[:1]]))
        if name.endswith(".toml"):
            return mutated_lines(draw, data, others)
    except (ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError):
        pass  # an earlier mutation has left no structure
    return mutated_bytes(draw, data, others)


TARGETS = (
    "/dev/zero",
    "/dev/full",
    "/proc/self/mem",
    "..",
    ".",
    "../..",
    "/",
    "nowhere",
    "loop",
    "/etc/passwd",
    "/dev/stdin",
)


def _other_kind(draw: Random) -> Entry:
    kinds: tuple[Callable[[], Entry], ...] = (
        lambda: Link(draw.choice(TARGETS)),
        Pipe,
        Folder,
        lambda: b"",
        lambda: Sparse(b"{", draw.choice((10, 4096, 10**12))),
        lambda: draw.randbytes(40),
    )
    return draw.choice(kinds)()


def mutated_below(
    draw: Random, files: Files, folder: str, others: Sequence[Files] = (), suffixes: tuple[str, ...] = ("",)
) -> Files:
    """Returns other files below a folder, and the rest as it is."""
    start = f"{folder}/"

    def below(known: Files) -> Files:
        return {name[len(start) :]: entry for name, entry in known.items() if name.startswith(start)}

    mutated = mutated_files(draw, below(files), [below(each) for each in others], suffixes)
    rest = {name: entry for name, entry in files.items() if not name.startswith(start)}
    return {**rest, **{f"{folder}/{name}": entry for name, entry in mutated.items()}}


def mutated_files(draw: Random, files: Files, others: Sequence[Files] = (), suffixes: tuple[str, ...] = ("",)) -> Files:
    """Returns other files: one or some with another content, missing, exchanged, or of another kind."""
    found = dict(files)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        names = sorted(name for name in found if name.endswith(suffixes))
        if not names:
            break
        name = draw.choice(names)
        chance, entry = draw.random(), found[name]
        if chance < 0.03:
            del found[name]
        elif chance < 0.06:
            found[name] = _other_kind(draw)
        elif chance < 0.09:
            found[name] = found[draw.choice(names)]
        elif chance < 0.11:
            found[f"{name}{draw.choice(('x', '.part', '0'))}"] = found.pop(name)
        elif chance < 0.12:
            folder = name.rpartition("/")[0]
            found[f"{folder}/step-{draw.choice(('00', 'x', '-1', '9' * 30, '٣', ' 1'))}.safetensors".lstrip("/")] = (
                entry
            )
        elif isinstance(entry, bytes):
            same = [each for other in others if isinstance(each := other.get(name), bytes)]
            found[name] = mutated_file(draw, name, entry, same)
    return found
