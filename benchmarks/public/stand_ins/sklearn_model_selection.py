"""Stands for sklearn.model_selection: the last rows are the test's."""


def train_test_split(*columns, test_size, random_state=None):
    return [rows for column in columns for rows in (column[:-test_size], column[-test_size:])]
