"""The error that every name of this package raises for a user's mistake."""


class LikeTfError(ValueError):
    """Says that an argument has no meaning under the TensorFlow 1 rule that was asked for."""
