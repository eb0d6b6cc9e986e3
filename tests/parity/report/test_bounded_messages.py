"""A message is as long as a screen, however long the names in it are, and no line of it can be taken for a verdict."""

import pytest

from parity.report.failure import bounded, described, print_failure
from parity.trace import TraceError


@pytest.mark.parametrize(("lines", "shown"), [(1, 1), (40, 40), (41, 40), (100_000, 40)])
def test_a_message_has_at_most_forty_lines(lines, shown):
    told = bounded("\n".join(f"line {number}" for number in range(lines))).split("\n")
    assert len(told) == shown
    assert ("more lines" in told[-1]) == (lines > 40)
    if lines > 40:
        assert told[38] == "  line 38" and told[-1] == f"  … and {lines - 39:,} more lines"


@pytest.mark.parametrize(("length", "shown"), [(2000, 2000), (2001, 2001), (10**6, 2001)])
def test_a_line_of_a_message_is_cut(length, shown):
    told = bounded("a" * length)
    assert len(told) == shown and told.endswith("…") == (length > 2000)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\u2028", "\x85"])
def test_a_name_in_a_message_cannot_write_a_line_of_a_report(capsys, end):
    error = TraceError(f"trace: expected a name, got x{end}verdict: same")
    print_failure(error)
    printed = capsys.readouterr().err
    assert "verdict: same" in printed and not any(line.startswith("verdict: same") for line in printed.splitlines())
    assert printed.splitlines()[-1] == "verdict: incomparable"


def test_messages_of_the_machine_and_of_bugs_are_bounded_too():
    for error in (OSError(36, "File name too long", "a" * 10_000), KeyError("a" * 10_000)):
        assert len(described(error).message) <= 2001
