"""Makes the folder of --tensorboard ready: what an earlier run left there must not be drawn beside this one's."""

import importlib.util
from pathlib import Path

from parity.commands.errors import CommandError


def claim_events(folder: Path) -> Path:
    """Returns `folder`, its parts made and the event files of an earlier run removed; other files stay.

    Raises:
      CommandError: it cannot be written, or the package tensorboard is not installed.
    """
    from parity.report.tensorboard import EVENTS, SIDES

    if importlib.util.find_spec("tensorboard") is None:
        raise CommandError(
            "--tensorboard: expected the package tensorboard, got none. "
            "Install it (pip install tensorboard), or leave the option out."
        )
    try:
        for side in SIDES:
            (folder / side).mkdir(parents=True, exist_ok=True)
            for old in (folder / side).glob(f"{EVENTS}.*.parity"):
                old.unlink()
    except OSError as error:
        raise CommandError(
            f"--tensorboard: expected a folder that can be written at {folder}, got: {error.strerror}. Name another."
        ) from None
    return folder
