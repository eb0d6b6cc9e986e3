"""The error of this package."""


class TowerError(ValueError):
    """Towers cannot be built or run as asked; the message says who, what was expected, what came and what to do."""


class CheckpointError(TowerError):
    """A checkpoint cannot be read, or what is to be written is none; the message says what to do."""
