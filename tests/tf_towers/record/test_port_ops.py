"""Every op type that a port is written with has a test of its gradient: a recorded script whose port is proven.

The proof compares every gradient in float64 with TensorFlow's. `port_ops.py` has the ops, in groups.
"""

from pathlib import Path

import pytest
from support.tiers import on_both

from parity.cli import main
from parity.experiment.replay.script import parts_of
from parity.port.source import program  # noqa: F401  fills `WRITERS`
from parity.port.source.writer import WRITERS
from parity.port.tower.layers import CROSS_ENTROPY, DROPOUT, LAYERS
from parity.port.tower.moves import VARIANCE
from parity.port.tower.reader import Reader
from parity.port.tower.shapes import shapes_of
from parity.port.training.scalars import OF_PYTHON
from parity.trace import Trace, read_graph

from .conftest import run_recorded

SCRIPT = Path(__file__).parent / "port_ops.py"
PAGE = Path(__file__).parents[3] / "docs" / "port.md"
# By group of `port_ops.py`.
KINDS = """
smooth: Acos Acosh AddN AddV2 Asin Asinh Atan Atan2 Atanh Cos Cosh Erf Erfc Exp Expm1 Lgamma Log Log1p Mean
    Mul Neg Reciprocal Rsqrt Sigmoid Sin Sinh Softplus Softsign Sqrt Square Sub Tan Tanh
kinked: Abs Cast Ceil Elu Equal Floor Greater GreaterEqual IsFinite IsInf IsNan LeakyRelu Less LessEqual
    LogicalAnd LogicalNot LogicalOr Maximum Minimum NotEqual Relu Relu6 Rint Round Select Selu Sign
    StopGradient
arithmetic: ArgMax ArgMin BiasAdd DivNoNan FloorDiv FloorMod L2Loss LogSoftmax MatMul MatrixDeterminant
    MatrixDiag MatrixInverse Pow Range RealDiv Softmax SquaredDifference StridedSlice
reductions: Add All Any BatchMatMulV2 Cumprod Cumsum Max Min Prod Reshape Sum TopKV2 Transpose
rearranged: BroadcastTo ConcatV2 ExpandDims GatherNd GatherV2 MatrixBandPart MatrixDiagPart MirrorPad OneHot
    Pack Pad PadV2 ReverseV2 Roll ScatterNd SegmentSum Slice Split SplitV Squeeze Tile Unpack
    UnsortedSegmentSum Where
images: AvgPool BatchToSpaceND Conv2D Conv2DBackpropInput Conv3D DepthToSpace DepthwiseConv2dNative
    FusedBatchNormV3 LRN MaxPool ResizeBilinear ResizeNearestNeighbor SpaceToBatchND SpaceToDepth
single: AvgPool3D MaxPool3D
"""
COVERED = {
    line[0].rstrip(":"): line[1:]
    for each in KINDS.strip().replace("\n    ", " ").splitlines()
    for line in [each.split()]
}
IN_FLOAT32_ONLY = ("single",)  # no kernels in float64, so no shadow: "same", but only half of it was judged
# What several ops were raised to, or a part of one; the ops behind are those of the scripts of tests/legacy_scripts.
RAISED = {
    *LAYERS,
    CROSS_ENTROPY,
    DROPOUT,
    VARIANCE,
    "AccidentalHits",
    "AsTensor",
    "Block",
    "Choice",
    "Index",
    "WeightDecay",
}
IN_SCRIPTS = {
    "SparseSoftmaxCrossEntropyWithLogits": "clones",
    "SoftmaxCrossEntropyWithLogits": "placeholder_slices",
    "RandomUniform": "dropout_wrapper",
    "TensorArrayGatherV3": "dropout_wrapper",
    "TensorArrayReadV3": "dropout_wrapper",
}
# The same ops under the names of TensorFlow 2, or of versions before 1.15; RandomStandardNormal is drawn as RandomUniform.
OTHER_NAMES = """
BatchMatMul BatchMatMulV3 Diag Div Einsum FusedBatchNorm FusedBatchNormV2 Gather Inv MatrixDiagPartV2 MatrixDiagPartV3
MatrixDiagV2 MatrixDiagV3 RandomStandardNormal SelectV2
"""
OF_OTHER_VERSIONS = {*OTHER_NAMES.split()}


def table() -> str:
    """The table of docs/port.md."""
    rows = [f"| `{group}` | {', '.join(kinds)} |" for group, kinds in COVERED.items()]
    rows.append(f"| scripts | {', '.join(sorted(IN_SCRIPTS))} |")
    rows.append(f"| other versions' names | {', '.join(sorted(OF_OTHER_VERSIONS))} |")
    return "\n".join(["| group | op types |", "|---|---|", *rows])


def test_every_type_that_is_written_is_tested_and_stands_in_the_table():
    covered = [kind for kinds in COVERED.values() for kind in kinds]
    assert len(covered) == len(set(covered)) >= 76
    of_graphs = {
        kind for kind in WRITERS if not kind.startswith(OF_PYTHON)
    }  # what schedules compute is no op of a graph
    assert {*covered, *IN_SCRIPTS} | OF_OTHER_VERSIONS == of_graphs - RAISED
    assert table() in PAGE.read_text()


def proven(tf_python, group, folder, capsys):
    """The trace of a group, once its port is written and proven."""
    out = run_recorded(tf_python, SCRIPT, group, options=(), cwd=folder).out
    expected = 2 if group in IN_FLOAT32_ONLY else 0
    assert main(["port", str(out), "--out", str(folder / "port"), "--quiet"]) == expected
    assert "verdict: same" in capsys.readouterr().out
    return out


@pytest.mark.usefixtures("forked_torch")
def test_gradients_of_kinked_ops_are_tensorflows_in_float64(tf_python, tmp_path, capsys):
    proven(tf_python, "kinked", tmp_path, capsys)


# TensorFlow 2 has other names for some of them, which its ports of tests/legacy_scripts have.
@pytest.mark.slow
@on_both(COVERED, "images")
@pytest.mark.usefixtures("forked_torch")
def test_gradients_of_a_group_are_tensorflows_in_float64(tf_python, name, tmp_path, request, capsys):
    out = proven(tf_python, name, tmp_path, capsys)
    if "tf1" in request.node.name:
        assert set(COVERED[name]) <= kinds_of(out)


def kinds_of(directory: Path) -> set[str]:
    trace, graph = Trace(directory, whole=False), read_graph(directory)
    shapes = shapes_of(trace, graph)
    return {op.kind for part in parts_of(trace) for op in Reader(graph, part, shapes).tower(0).ops()}
