"""Child processes: how they are started, what they are asked and answer, and how they fail (Python 3.7 and up)."""
