"""Proves that a PyTorch port of TensorFlow 1 tower training is the same training, down to rounding.

Importing this package has no effects and loads nothing: names are looked up when they are first used, so that a legacy
interpreter (Python 3.7) can reach ``parity.trace`` without the rest.
"""

__version__ = "0.1.0"
