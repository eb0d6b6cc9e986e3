"""Takes apart what a script fetches and feeds."""

from tensorflow.python.client import session as session_module

from tf_towers.record.inputs import PLACEHOLDERS


def fetched_by(graph, fetches):
    """Returns the tensors and ops of a structure of fetches, or None where TensorFlow itself will refuse it."""
    try:
        # As the session does: a script may run a graph that is not the default one, and in other threads none is.
        with graph.as_default():
            unique = session_module._FetchMapper.for_fetch(fetches).unique_fetches()
        return [graph.as_graph_element(each, allow_tensor=True, allow_operation=True) for each in unique]
    except (TypeError, ValueError, KeyError):
        return None


def fed_beside_placeholders(graph, feed_dict):
    """Returns the names of the tensors that are fed though they are no placeholders, e.g. an RNN's first state."""
    found = set()
    for key in feed_dict or {}:
        try:
            tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
        except (TypeError, ValueError, KeyError):
            continue  # a structure, or what TensorFlow itself will refuse
        if tensor.op.type not in PLACEHOLDERS:
            found.add(tensor.name)
    return frozenset(found)
