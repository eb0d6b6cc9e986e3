"""What mapping raises."""


class MappingError(ValueError):
    """The variables of the two sides cannot be joined, or an array does not fit its transform.

    Attributes:
      table: a [mapping] table with what is known and guessed, ready to be completed and used; "" where there is none.
    """

    def __init__(self, message: str, table: str = "") -> None:
        super().__init__(message)
        self.table = table
