"""What TensorFlow's objects are called in annotations: it has no types that a checker could read, on 1.15 none at all."""

from typing import Any, Callable, Dict, List, Mapping, Tuple

Graph = Any  # tf.Graph
Operation = Any  # tf.Operation
Tensor = Any  # tf.Tensor
Variable = Any  # tf.Variable, of either kind: one that is a reference, or one that is a resource
Gradient = Any  # a tensor, tf.IndexedSlices, or None where the loss does not depend on the variable
Session = Any  # tf.Session
Optimizer = Any  # tf.train.Optimizer
DType = Any  # tf.DType
FunctionDef = Any  # of tensorflow.core.framework.function_pb2
FunctionDefLibrary = Any  # of tensorflow.core.framework.function_pb2
GraphDef = Any  # of tensorflow.core.framework.graph_pb2
NodeDef = Any  # of tensorflow.core.framework.node_def_pb2

Pairs = List[Tuple[Gradient, Variable]]  # as compute_gradients returns them
Feeds = Dict[Any, Any]  # placeholder, or its name, to array: what tf.Session.run is fed
InputSpecs = Mapping[str, Tuple[Any, Any]]  # name of an input to (dtype, shape) of the whole batch
TowerFunction = Callable[..., Any]  # of the inputs by name; returns a scalar loss, or (loss, dict of name to tensor)
