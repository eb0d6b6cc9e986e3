"""What is wrong with a command, beside what its parser finds."""


class CommandError(ValueError):
    """A command cannot do what it was asked; the message says who, what was expected, what came and what to do."""
