"""Turns inputs that readers take into inputs that they should refuse, or take as well: by bytes, and by structure."""

import json
import re
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

NUMBERS = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63)
STRINGS = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\x1b[31m\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\u202egnp.exe",
    "\u2066\u2069",
    "\u2028line\u2029",
    "line\nverdict: same\n",
    "line\r\nline",
    '"', "'", '"""', "'''", "\\", "`", "[red]", "[/bold]", "{0}", "%s", "$(id)", "../../x", "/etc/passwd", "..", ".", "/",
    "a/../../b", "~", "con", "a" * 300, "a" * 5000, "\ud800", "\U0001f600", "ﷺ" * 40, "nan", "-inf", "1e999", "١", "²",
    "__class__", "__init__", "class", "__checksum__", "section//x", "section/a/var/x", "var/", "slot/m", "feed//x",
    "feed/0/x", "grad/w.values", "grad/w.indices", "os:system", "a" + "/a" * 200, "\n" * 100, "-", "--out", "=",
)  # fmt: skip
# Texts of JSON that Python's values cannot say.
RAW = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e-999", "-0", "-0.0", "1E400", "9" * 39, "9" * 41, "9" * 5000,
    "-" + "9" * 40, "1.0", "1e3", "[" * 90 + "]" * 90, "[" * 150 + "]" * 150, "[" * 100_000, '{"a":' * 99 + "1" + "}" * 99,
    '{"a":1,"a":2}', '"\\ud800"', '"\\u0000"', '"\\u202e"', "0" * 50, "tru", "",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 0.5, -1.5, 1e308, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**19, 10**38,
    [], {}, [[]], [None], [0], [1, 2, 3], [-1], [2**62, 2**62], [10**9, 10**9], ["a"], [{}], {"": {}}, {"a": "b"}, [[0, 0]],
    [0] * 40, [1] * 1000, list(range(60)), {"name": "adam"}, {"shape": [2], "dtype": "float32", "kind": "weight"},
)  # fmt: skip
MOST_GROWN = 1 << 20  # bytes that an input may grow to by copies of its own pieces

# Around the number of a raw text, and behind a key that is there already: no seed holds this character.
_MARK, _ESCAPED_MARK = "\ue000", "\\ue000"
_RAW_PLACE = re.compile(r'"\\ue000(\d+)\\ue000"')
_SAME_KEY = re.compile(r"(?:\\ue000)+(?=\"\s*:)")
RAW_VALUES = [f"{_MARK}{number}{_MARK}" for number in range(len(RAW))]


# ---- bytes


def mutated_bytes(draw: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Returns other bytes: flipped, cut, doubled, overwritten or put together with another seed's."""
    for _ in range(draw.choice((1, 1, 1, 2, 3, 5))):
        data = draw.choice(_BYTES)(draw, data, others)
        if len(data) > MOST_GROWN:
            return data[:MOST_GROWN]
    return data


def _flip(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return b"\x00"
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]


def _cut(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _drop(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    begin = draw.randrange(len(data) + 1)
    return data[:begin] + data[begin + draw.choice((1, 2, 8, 40)) :]


def _double(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    begin = draw.randrange(len(data) + 1)
    piece = data[begin : begin + draw.choice((1, 4, 30, 200))]
    return data[:begin] + piece * draw.choice((2, 2, 3, 100)) + data[begin:]


def _insert(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    begin = draw.randrange(len(data) + 1)
    text = draw.choice(STRINGS).encode("utf-8", "surrogatepass") if draw.random() < 0.5 else draw.randbytes(4)
    return data[:begin] + text + data[begin:]


def _overwrite(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    number = struct.pack("<Q", draw.choice(NUMBERS) & (2**64 - 1))[: draw.choice((1, 2, 4, 8))]
    begin = draw.choice((0, draw.randrange(len(data) + 1)))
    return data[:begin] + number + data[begin + len(number) :]


def _splice(draw: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = draw.choice(others) if others else data
    return data[: draw.randrange(len(data) + 1)] + other[draw.randrange(len(other) + 1) :]


_BYTES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    _flip, _flip, _cut, _drop, _double, _insert, _overwrite, _splice,
)  # fmt: skip


# ---- JSON


def mutated_json(draw: Random, value: Any, others: Sequence[Any] = ()) -> Any:
    """Changes a JSON value in place at some places, and returns it."""
    holder = [value]
    places = [(holder, 0), *_places(value)]
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        if len(places) < 400:  # what has grown is not to grow again
            places = [(holder, 0), *_places(holder[0])]
        held, key = draw.choice(places[1:] or places) if draw.random() < 0.98 else places[0]
        try:
            draw.choice(_JSON)(draw, held, key, places, others)
        except (LookupError, TypeError):  # an earlier change has taken the place away
            places = [(holder, 0)]
        holder = holder or [None]
    return holder[0]


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    left = [value]
    while left and len(found) < 2000:
        holder = left.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                left.append(holder[key])
    return found


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def hostile(draw: Random) -> Any:
    """Returns a value that stands where another was expected."""
    chance = draw.random()
    if chance < 0.35:
        return draw.choice(STRINGS)
    return draw.choice(RAW_VALUES) if chance < 0.45 else _copied(draw.choice(VALUES))


def _replace(draw: Random, held: Any, key: Any, places: Any, others: Any) -> None:
    held[key] = hostile(draw)


def _remove_key(draw: Random, held: Any, key: Any, places: Any, others: Any) -> None:
    del held[key]


def _same_key(draw: Random, held: Any, key: Any, places: Any, others: Any) -> None:
    if isinstance(held, dict) and isinstance(key, str):
        held[key + _MARK] = hostile(draw)
    elif isinstance(held, list):
        held.append(_copied(held[key]))


def _rename(draw: Random, held: Any, key: Any, places: Any, others: Any) -> None:
    if isinstance(held, dict):
        names = [each for _, each in places if isinstance(each, str)]
        held[draw.choice((draw.choice(STRINGS), draw.choice(names) if names else "x"))] = held.pop(key)
    else:
        draw.shuffle(held)


def _elsewhere(draw: Random, held: Any, key: Any, places: Any, others: Any) -> None:
    other, its = draw.choice(_places(draw.choice(others)) or places if others and draw.random() < 0.4 else places)
    held[key] = _copied(other[its])


def _tweak(draw: Random, held: Any, key: Any, places: Any, others: Any) -> None:
    value = held[key]
    if isinstance(value, str):
        other = draw.choice(STRINGS)
        held[key] = draw.choice((value + other, other + value, value[1:], value[:-1], value.upper(), value + value))
    elif type(value) in (int, float):
        held[key] = draw.choice(
            (value + 1, value - 1, -value, value * 2, draw.choice(NUMBERS), float(value), bool(value))
        )
    elif isinstance(value, list):
        longer = value * (50 if len(places) < 300 else 1)
        held[key] = draw.choice((value + value[:9], value[1:], value[:-1], [value], value[::-1], longer))
    elif isinstance(value, dict):
        held[key] = draw.choice(
            (list(value), [[name, _copied(each)] for name, each in value.items()], {}, dict.fromkeys(value))
        )
    else:
        held[key] = hostile(draw)


def _grow(draw: Random, held: Any, key: Any, places: Any, others: Any) -> None:
    # Not again where much is there already: what is grown three times would be 27 million.
    count = draw.choice((1, 20, 300)) if len(places) < 300 else 1
    if isinstance(held, dict):
        for number in range(count):
            held[f"{key}{number}"] = held[key]
    else:
        held.extend([held[key]] * count)


_JSON: tuple[Callable[[Random, Any, Any, Any, Any], None], ...] = (
    _replace, _replace, _replace, _remove_key, _same_key, _rename, _elsewhere, _elsewhere, _tweak, _tweak, _tweak, _grow,
)  # fmt: skip


MOST_RAW = 40


def json_text(value: Any) -> bytes:
    """Returns a JSON value, with raw texts and doubled keys in it, as text."""
    text = json.dumps(value)
    if _ESCAPED_MARK in text:
        # Some 100 kB each: where one was copied by the hundred, the rest stay strings.
        text = _RAW_PLACE.sub(lambda found: RAW[int(found[1][-6:]) % len(RAW)], text, count=MOST_RAW)
        text = _SAME_KEY.sub("", text)
    return text.encode("utf-8", "surrogatepass")


# ---- TOML


def toml_text(value: dict[str, Any]) -> bytes:
    """Returns a table, with raw texts in it, as TOML: each of its keys with a value in one line."""
    lines = [f"{_toml_key(key)} = {_toml(each)}" for key, each in value.items()]
    return "\n".join(lines).encode("utf-8", "replace")


def _toml_key(key: str) -> str:
    return json.dumps(key.replace(_MARK, "")).replace("\\/", "/")


def _toml(value: Any) -> str:
    if isinstance(value, str) and value in RAW_VALUES:
        return RAW[RAW_VALUES.index(value)]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(str(key))} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return '""' if value is None else json.dumps(value)


def mutated_lines(draw: Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """Returns a text with lines doubled, dropped, exchanged, or taken from another one."""
    lines = text.split(b"\n")
    for _ in range(draw.choice((1, 1, 2, 4))):
        place, other = draw.randrange(len(lines)), draw.choice(others).split(b"\n") if others else lines
        kind = draw.randrange(5)
        if kind == 0:
            lines.insert(place, lines[draw.randrange(len(lines))])
        elif kind == 1 and len(lines) > 1:
            del lines[place]
        elif kind == 2:
            lines.insert(place, draw.choice(other))
        elif kind == 3:
            key, equals, _ = lines[place].partition(b"=")
            lines[place] = key + equals + _toml(hostile(draw)).encode("utf-8", "replace")
        else:
            lines[place] = mutated_bytes(draw, lines[place])
    return b"\n".join(lines)
