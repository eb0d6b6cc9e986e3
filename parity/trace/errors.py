"""What is wrong with a trace."""


class TraceError(ValueError):
    """A trace, or a file of one, is not what it should be."""
