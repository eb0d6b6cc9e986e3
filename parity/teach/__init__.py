"""The lessons of `parity teach`: finds them, has both frameworks play their parts, shows text, numbers and pictures.

Importing this package loads nothing, so that a legacy interpreter (Python 3.7) can reach ``parity.teach.part``.
"""
