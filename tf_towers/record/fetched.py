"""Takes apart what a script fetches."""

from tensorflow.python.client import session as session_module


def fetched_by(graph, fetches):
    """Returns the tensors and ops of a structure of fetches, or None where TensorFlow itself will refuse it."""
    try:
        unique = session_module._FetchMapper.for_fetch(fetches).unique_fetches()
        return [graph.as_graph_element(each, allow_tensor=True, allow_operation=True) for each in unique]
    except (TypeError, ValueError, KeyError):
        return None
