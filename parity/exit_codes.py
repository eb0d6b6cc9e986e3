"""The exit codes of the command line: what each says, in one place."""

import enum
import errno
import mmap


class ExitCode(enum.IntEnum):
    """The first three as `diff` has them."""

    SAME = 0
    DIFFERENT = 1
    INCOMPARABLE = 2
    UNFINISHED = 3
    INTERNAL_ERROR = 4
    INTERRUPTED = 130  # 128 + SIGINT, as a shell says it


MEANINGS = {
    ExitCode.SAME: "same, or done",
    ExitCode.DIFFERENT: "different",
    ExitCode.INCOMPARABLE: "could not compare, or could not do what was asked, as with a wrong option",
    ExitCode.UNFINISHED: "done in part: what is left is named",
    ExitCode.INTERNAL_ERROR: "a bug here, with its traceback in a file",
    ExitCode.INTERRUPTED: "interrupted, by Ctrl-C or a cancelled job",
}


# What CPython raises where its own code failed without an exception, as it does where it could not make one for want of
# memory: 3 of 8 runs that met a limit of their addresses ended so.
WITHOUT_AN_EXCEPTION = ("error return without exception set", "returned NULL without setting an exception")
SHORT = 256 << 20  # bytes of addresses: more than what the end of a command frees before it says why


def lacks_memory(error: BaseException | None) -> bool:
    """Whether an exception was raised for want of memory, or while one was handled that was."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, SystemError) and any(text in str(error) for text in WITHOUT_AN_EXCEPTION) and _is_short():
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_short() -> bool:
    """Whether no more than a few addresses are to be had; no page of those that are asked for is touched."""
    try:
        mmap.mmap(-1, SHORT).close()
    except (OSError, MemoryError):
        return True
    return False


TABLE = "; ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items())
