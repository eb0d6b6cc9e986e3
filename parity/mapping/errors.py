"""What mapping raises."""


class MappingError(ValueError):
    """The variables of the two sides cannot be joined, or an array does not fit its transform."""
