"""A line from a worker that is no reply of the protocol is said to be none."""

import io

import pytest

from parity.worker.protocol import Channel, fault_of_reply

ERROR = {"type": "ValueError", "message": "no", "traceback": "", "plain": False}


@pytest.mark.parametrize(
    "reply", [{"result": None}, {"error": ERROR}, {"error": {**ERROR, "rank": 1}}, {"progress": [1, 20]}]
)
def test_what_the_protocol_has_is_right(reply):
    assert fault_of_reply(reply) == ""


@pytest.mark.parametrize(
    "reply",
    [
        3,
        None,
        [],
        {},
        {"progress": 3},
        {"progress": [1]},
        {"progress": ["1", "20"]},
        {"error": "no"},
        {"error": {}},
        *({"error": {name: value for name, value in ERROR.items() if name != left}} for left in ERROR),
        {"error": {**ERROR, "message": None}},
        {"error": {**ERROR, "rank": "1"}},
    ],
)
def test_what_it_has_not_is_named(reply):
    assert fault_of_reply(reply)


def test_a_line_of_too_many_levels_is_no_json():
    with pytest.raises(ValueError, match="too many levels"):
        Channel(io.BytesIO(b"[" * 200_000 + b"\n"), io.BytesIO()).receive()
