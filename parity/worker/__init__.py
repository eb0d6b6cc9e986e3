"""Child processes: how they are started, what they are asked and answer, and how they fail.

`parent`, `protocol`, `user_code` and `bootstrap` are read by Python 3.7 as well, in the processes themselves.
"""
