"""Sets of op types, each named for what its ops do: of graphs of Python objects and of graph definitions alike."""

PLACEHOLDERS = frozenset(["Placeholder", "PlaceholderV2", "PlaceholderWithDefault"])
VARIABLES = frozenset(["Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp", "VarIsInitializedOp"])
READS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"])
WRITING = ("Assign", "Apply", "ResourceApply", "SparseApply", "ResourceSparseApply", "Scatter", "ResourceScatter")
RANDOM = frozenset(
    ["RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "RandomShuffle", "RandomGamma"]
    + ["Multinomial", "ParameterizedTruncatedNormal", "RandomPoissonV2", "StatelessRandomUniform"]
    + ["StatelessRandomNormal"]
)
# Stateful to TensorFlow, since what they hold is changed in place; yet they compute the same from the same.
OF_A_RUN = ("TensorArray", "Stack", "TensorList", "CreateTemporary", "DestroyTemporary", "TemporaryVariable")
FUNCTIONS = frozenset(["While", "If", "Case", "StatefulPartitionedCall"])
ABOUT_SHAPES = frozenset(["Shape", "ShapeN", "Size", "Rank"])
PASSED_ON = frozenset(["Print", "PrintV2", "Assert"])

# Ops that compute every example from that example alone: of one input, and of two where the other one is a constant.
BY_EXAMPLE = frozenset(
    ["Identity", "Cast", "Neg", "Abs", "Square", "Sqrt", "Rsqrt", "Exp", "Log", "Log1p", "Sigmoid", "Tanh", "Relu"]
    + ["Sign", "LogicalNot", "StopGradient", "OneHot"]
)
WITH_A_CONSTANT = frozenset(
    ["Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Pow", "Equal"]
    + ["NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual"]
)

OVER_AXES = frozenset(["Sum", "Mean", "Max", "Min"])
