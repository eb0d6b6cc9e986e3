"""Stands for sklearn.metrics."""


def accuracy_score(truth, guess):
    return float((truth == guess).mean())


def roc_auc_score(truth, guess):
    return 0.5
