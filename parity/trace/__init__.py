"""The contract between the sides: traces on disk, and the messages that steer who writes them.

Needs numpy and Python 3.7, no more, so that it can be used by path from a ten-year-old environment.
"""

from parity.trace.after import COMPUTED as COMPUTED
from parity.trace.after import COUNTERS_AFTER as COUNTERS_AFTER
from parity.trace.after import counters_after as counters_after
from parity.trace.after import state_after as state_after
from parity.trace.aside import ASIDE as ASIDE
from parity.trace.aside import jumps as jumps
from parity.trace.aside import moved_aside as moved_aside
from parity.trace.aside import moved_with_inputs as moved_with_inputs
from parity.trace.channel import Channel as Channel
from parity.trace.channel import SideError as SideError
from parity.trace.channel import claim_standard_streams as claim_standard_streams
from parity.trace.channel import describe_error as describe_error
from parity.trace.channel import die_with_parent as die_with_parent
from parity.trace.channel import serve as serve
from parity.trace.errors import TraceError as TraceError
from parity.trace.evaluation import Evaluated as Evaluated
from parity.trace.evaluation import evaluated as evaluated
from parity.trace.evaluation import format_evaluated as format_evaluated
from parity.trace.evaluation import parse_evaluated as parse_evaluated
from parity.trace.graph import GRAPH_FILE as GRAPH_FILE
from parity.trace.graph import RecordedGraph as RecordedGraph
from parity.trace.graph import read_graph as read_graph
from parity.trace.graph import reduce_value as reduce_value
from parity.trace.graph import write_graph as write_graph
from parity.trace.quantities import OF_A_TOWER as OF_A_TOWER
from parity.trace.quantities import OF_A_VARIABLE as OF_A_VARIABLE
from parity.trace.quantities import QUANTITIES as QUANTITIES
from parity.trace.quantities import RANK_OF as RANK_OF
from parity.trace.quantities import Key as Key
from parity.trace.quantities import format_key as format_key
from parity.trace.quantities import parse_key as parse_key
from parity.trace.quantities import quantity_of as quantity_of
from parity.trace.quantities import tower_order as tower_order
from parity.trace.reader import Trace as Trace
from parity.trace.tensor_file import TensorFile as TensorFile
from parity.trace.tensor_file import decode as decode
from parity.trace.tensors import BFloat16 as BFloat16
from parity.trace.tensors import encode as encode
from parity.trace.tensors import write_json as write_json
from parity.trace.tensors import write_tensors as write_tensors
from parity.trace.user_code import UserCode as UserCode
from parity.trace.user_code import call_as as call_as
from parity.trace.writer import FORMAT_VERSION as FORMAT_VERSION
from parity.trace.writer import SHADOW as SHADOW
from parity.trace.writer import SHADOW_ASIDE as SHADOW_ASIDE
from parity.trace.writer import SHADOW_ASIDE_WITH_INPUTS as SHADOW_ASIDE_WITH_INPUTS
from parity.trace.writer import SHADOW_EMPTY as SHADOW_EMPTY
from parity.trace.writer import SHADOW_FILE as SHADOW_FILE
from parity.trace.writer import SHADOW_FREE as SHADOW_FREE
from parity.trace.writer import SHADOW_SPREAD as SHADOW_SPREAD
from parity.trace.writer import TraceWriter as TraceWriter
