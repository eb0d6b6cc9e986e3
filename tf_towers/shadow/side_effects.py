"""Refuses graphs that do something beside computing: a trace may be anybody's, and its graph is run."""

import re

from tf_towers.float64.errors import refuse
from tf_towers.graph.traversal import called_functions
from tf_towers.tf_types import GraphDef

# Parts of the names of ops that read or write files, talk to other processes or devices, or run code that is no op of
# theirs. By name and not by what TensorFlow calls stateful: variables and draws are that too, and ReadFile is not.
# Listed from all ops of TensorFlow 2.21 and 1.15 (`TF_GetAllOpList`).
REACHING = re.compile(
    r"File(?!name|spec)|Save|Restore|Checkpoint|SummaryWriter|Write\w*Summary|Summary\w*Writer|Reader|Dataset|Iterator"
    r"|Rpc|Remote|Send|Recv|Load|Dump|Debug|LMDB|Sql|Sleep|Xla|TPU|Nccl|Collective|Outfeed|Infeed|codeProto"
    r"|SessionHandle|SessionTensor|Mutex|WorkerHeartbeat|StoreMinibatch|ImportEvent|EagerPyFunc|PyFuncStateless"
)
PRINTS_ANYWHERE = "PrintV2"  # its output may be a file
STREAMS = ("stdout", "stderr", "log(info)", "log(warning)", "log(error)")


def refuse_side_effects(definition: GraphDef) -> None:
    """Refuses a graph with an op that reaches beyond it.

    Args:
      definition: of what is going to be run, and nothing else; functions that it calls count.

    Raises:
      CannotShadow: there is one.
    """
    called = called_functions(definition.node, definition.library)
    inside = [node for function in called for node in function.node_def]
    for node in list(definition.node) + inside:
        stream = node.attr["output_stream"].s.decode("utf-8", "replace") if node.op == PRINTS_ANYWHERE else "stderr"
        if REACHING.search(node.op) or (stream or "stderr") not in STREAMS:
            refuse(
                f"expected a graph that computes and does nothing else, got the op {ascii(node.name)[:80]}, a "
                f"{ascii(node.op)[1:-1][:80]}, which reaches files, other processes or code"
            )
