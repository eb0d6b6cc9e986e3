"""The error of writing a port."""


class PortError(ValueError):
    """A port cannot be written; the message says who, what was expected, what came and what to do."""
