"""Stands for sklearn.metrics."""


def accuracy_score(truth, guess):
    return float((truth == guess).mean())
