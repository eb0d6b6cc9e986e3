"""A graph out of a trace is computed, and does nothing else: no file is written or read, and no other process is asked."""

# ruff: noqa: F821 - programs find tf there

import pytest


def _graph(made):
    """What is said of a graph with these ops, of one that calls a function with them, and of one that calls no such one."""
    from tensorflow.core.framework import graph_pb2

    from tf_towers.float64.errors import CannotShadow
    from tf_towers.shadow.side_effects import refuse_side_effects

    definition = graph_pb2.GraphDef()
    for number, (op, stream) in enumerate(made):
        node = definition.node.add(name=f"op-{number}", op=op)
        if stream:
            node.attr["output_stream"].s = stream.encode()
    uncalled = graph_pb2.GraphDef()
    for name, ops in (("inner", definition.node), ("outer", [])):
        function = uncalled.library.function.add()
        function.signature.name = name
        function.node_def.extend(ops)
    uncalled.library.function[1].node_def.add(name="calls", op="While").attr["body"].func.name = "inner"
    called = graph_pb2.GraphDef()
    called.CopyFrom(uncalled)
    called.node.add(name="calls", op="outer")
    found = []
    for each in (definition, called, uncalled):
        try:
            refuse_side_effects(each)
            found.append("")
        except CannotShadow as error:
            found.append(str(error))
    return {"said": found}


COMPUTING = ["MatMul", "VariableV2", "AssignAdd", "ResourceApplyAdam", "RandomUniform", "TensorArrayWriteV3", "Print"]
COMPUTING += [
    "Assert",
    "PyFunc",
    "ShardedFilename",
    "While",
    "StatefulPartitionedCall",
    "LookupTableFindV2",
    "QueueSizeV2",
]
REACHING = [
    "WriteFile",
    "ReadFile",
    "MatchingFiles",
    "SaveV2",
    "RestoreV2",
    "MergeV2Checkpoints",
    "CreateSummaryFileWriter",
]
REACHING += ["WriteScalarSummary", "InitializeTableFromTextFileV2", "WholeFileReaderV2", "TFRecordDataset", "RpcCall"]
REACHING += ["RemoteCall", "DatasetToTFRecord", "EagerPyFunc", "DebugIdentityV3", "DumpTensor", "XlaCallModule", "Send"]
REACHING += ["DecodeProtoV2", "EncodeProto", "LoadAndRemapMatrix", "FileSystemSetConfiguration"]


@pytest.mark.parametrize("op", COMPUTING)
def test_an_op_that_computes_is_taken(tf, op):
    assert tf(_graph, made=[[op, ""]])["said"] == ["", "", ""]


@pytest.mark.parametrize("op", REACHING)
def test_an_op_that_reaches_beyond_the_graph_is_refused_also_inside_of_functions_that_are_called(tf, op):
    *refused, uncalled = tf(_graph, made=[["MatMul", ""], [op, ""]])["said"]
    assert not uncalled
    for said in refused:
        assert said.startswith(
            "shadow: expected a graph that computes and does nothing else, got the op 'op-1', a " + op
        )


@pytest.mark.parametrize(
    ("stream", "taken"), [("", True), ("stderr", True), ("log(info)", True), ("file:///tmp/x", False)]
)
def test_what_prints_into_a_file_is_refused(tf, stream, taken):
    assert [not said for said in tf(_graph, made=[["PrintV2", stream]])["said"]] == [taken, taken, True]


def _written(path):
    import base64
    import os

    from parity.trace import RecordedGraph
    from tf_towers.float64.errors import CannotShadow
    from tf_towers.shadow.program import Program

    def text(value):
        kept = {"dtype": "DT_STRING", "tensor_shape": {}, "string_val": [base64.b64encode(value.encode()).decode()]}
        return {"dtype": {"type": "DT_STRING"}, "value": {"tensor": kept}}

    nodes = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": "DT_FLOAT"}}},
        {"name": "loss", "op": "Identity", "input": ["x"], "attr": {"T": {"type": "DT_FLOAT"}}},
        {"name": "where", "op": "Const", "attr": text(path)},
        {"name": "what", "op": "Const", "attr": text("written")},
        {"name": "write", "op": "WriteFile", "input": ["where", "what"]},
    ]
    values = {"feed/0/x": {"tensor": "x:0", "dtype": "float32", "shape": [2]}}
    values["loss/0"] = {"tensor": "loss:0", "dtype": "float32"}
    run = {"values": values, "updates": ["write"], "sections": {}}
    try:
        Program(RecordedGraph({"node": nodes}, {}, [run]), run).step({}, {"feed/0/x": np.ones(2, np.float32)})
    except CannotShadow as error:
        return {"said": str(error), "there": os.path.exists(path)}
    return {"said": "", "there": os.path.exists(path)}


def test_a_graph_that_writes_a_file_as_its_update_writes_none(tf, tmp_path):
    found = tf(_written, path=str(tmp_path / "written"))
    assert "got the op 'write', a WriteFile, which reaches files" in found["said"] and not found["there"]
