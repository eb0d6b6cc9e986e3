"""Says which parts of a recorded trace are there and refused: the report names what the verdict was made without."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from parity.trace import (
    GRAPH_FILE,
    SHADOW,
    SHADOW_EMPTY,
    SHADOW_FILE,
    SHADOW_OTHER_ORDER,
    SHADOW_TIES,
    SHADOW_TIES_OF_INPUTS,
    MissingError,
    Trace,
    TraceError,
    read_graph,
    read_json,
)

# What a shadow may lack: each by itself makes a report say less. The shadow itself, and what a free run takes, are reasons
# of a level that is not run.
OF_A_SHADOW = (SHADOW_TIES, SHADOW_TIES_OF_INPUTS, SHADOW_OTHER_ORDER, SHADOW_EMPTY)


def refused_parts(trace: Trace) -> list[str]:
    """Returns a sentence for each part that a replay can do without, and that is there and cannot be read; none mostly.

    Args:
      trace: as it was recorded.
    """
    return [f"done without, as if it were not there: {why}" for look in _looks(trace) if (why := _refusal(look))]


def _looks(trace: Trace) -> Iterator[Callable[[], object]]:
    folder = Path(trace.directory)
    if (folder / GRAPH_FILE).exists():
        yield partial(read_graph, folder)
    if (folder / SHADOW_FILE).exists():
        yield partial(_read_reason, folder / SHADOW_FILE)
    for name in OF_A_SHADOW:
        if (folder / SHADOW / name).exists():
            yield partial(Trace, folder / SHADOW / name)


def _read_reason(path: Path) -> None:
    try:
        found = read_json(str(path))
    except TraceError:
        raise
    except (OSError, ValueError) as error:
        raise TraceError(f"trace: expected JSON in {path}, got {error}. Make the shadow again.") from error
    if not isinstance(found, dict):
        raise TraceError(f"trace: expected an object in {path}, got another value. Make the shadow again.")


def _refusal(look: Callable[[], object]) -> str:
    try:
        look()
    except MissingError:  # as a shadow that was not finished
        return ""
    except TraceError as error:
        return str(error)
    return ""
