"""The exit codes of the command line: what each says, in one place."""

import enum
import errno


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


def lacks_memory(error: BaseException | None) -> bool:
    """Whether an exception was raised for want of memory, or while one was handled that was."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        error = error.__cause__ or error.__context__
    return False


TABLE = "; ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items())
