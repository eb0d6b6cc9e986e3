"""What is wrong with a trace."""


class TraceError(ValueError):
    """A trace, or a file of one, is not what it should be."""


class MissingError(TraceError):
    """A trace, or a part of one that it can do without, is not there, or its writer did not finish it.

    Who can do without it goes on. What is there and refused is a plain `TraceError`: who goes on all the same says so in the
    report, for nobody else would know what the verdict was made without.
    """


class DamagedError(Exception):
    """A file of a trace is not what was written, by its checksum.

    No `ValueError`, and no `TraceError`: whoever does without a trace that is not there must not do without a damaged one,
    for a verdict that leaves it out would be no answer.
    """

    is_refusal = True  # a sentence for the user all the same; processes that have not imported this module ask for it
