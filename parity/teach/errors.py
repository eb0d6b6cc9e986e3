"""What is wrong with a lesson, or with asking for one."""


class TeachError(ValueError):
    """A lesson cannot be given; the message says who, what was expected, what came and what to do."""
