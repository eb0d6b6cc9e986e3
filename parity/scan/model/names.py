"""Names of TensorFlow, whatever a script imports them as."""

import ast

# The longest first: what stands in front of a name, and what it is called here.
SPELLINGS = (
    ("tensorflow.contrib.slim.python.slim", "slim"),
    ("tensorflow.contrib.slim", "slim"),
    ("tensorflow.contrib.framework.python.ops", "tf.contrib.framework"),
    ("tensorflow.python.framework.ops", "tf"),
    ("tensorflow.python.ops.math_ops", "tf"),
    ("tensorflow.python.ops.array_ops", "tf"),
    ("tensorflow.python.ops.control_flow_ops", "tf"),
    ("tensorflow.python.ops.variable_scope", "tf"),
    ("tensorflow.python.ops.clip_ops", "tf"),
    ("tensorflow.python.ops.nn_ops", "tf.nn"),
    ("tensorflow.python.ops.nn", "tf.nn"),
    ("tensorflow.python.training", "tf.train"),
    ("tensorflow.python.keras", "keras"),
    ("tensorflow.compat.v1", "tf"),
    ("tensorflow.compat.v2", "tf"),
    ("tensorflow.keras", "keras"),
    ("tensorflow", "tf"),
    ("tf.contrib.slim", "slim"),
    ("tf.compat.v1", "tf"),
    ("tf.keras", "keras"),
    ("tf_slim", "slim"),
    ("tf_keras", "keras"),
    ("horovod.tensorflow.keras", "hvd"),
    ("horovod.tensorflow", "hvd"),
    ("horovod.keras", "hvd"),
)
NAMES_OF_LIBRARIES = ("tf.", "slim.", "keras.", "hvd.", "np.", "numpy.", "os.")  # that canonical names begin with


def chain(node: ast.AST | None) -> str:
    """Returns the names of `a.b.c`, "" of anything else; what is called or indexed on the way is "()" or "[]"."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            parts.append(node.id)
            return ".".join(reversed(parts))
        elif parts and isinstance(node, ast.Call | ast.Subscript):
            parts.append("()" if isinstance(node, ast.Call) else "[]")
            return ".".join(reversed(parts))
        else:
            return ""


def canonical(name: str) -> str:
    """Returns a dotted name by the spelling that rules know: `tf.`, `slim.`, `keras.`, `hvd.`."""
    for spelling, short in SPELLINGS:
        if name == spelling or name.startswith(f"{spelling}."):
            return canonical(short + name[len(spelling) :])
    return name
