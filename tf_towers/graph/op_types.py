"""Sets of op types, each named for what its ops do: of graphs of Python objects and of graph definitions alike.

Each is defined once. Where two uses need different sets, the two names say why.
"""

# Ops that put data into a graph by being fed.
PLACEHOLDERS = frozenset(["Placeholder", "PlaceholderV2", "PlaceholderWithDefault"])

# Ops that are a variable; the output of a reference is the variable's own buffer, that of a resource a handle.
# Five codebases ask for op == "Variable" alone, which 1.15 never makes: their variables land on the towers' devices.
# On 1.15 and on 2.21 tf.get_variable makes a VariableV2, with use_resource=True a VarHandleOp.
REFERENCES = frozenset(["Variable", "VariableV2", "AutoReloadVariable"])
VARIABLES = REFERENCES | {"VarHandleOp"}
# With what only asks whether one has a value: it is placed with the variable, and no data enters through it.
ABOUT_VARIABLES = VARIABLES | {"VarIsInitializedOp"}

# Ops that read a resource, and beginnings of the names of those that write a variable of either kind.
# tf.nn.embedding_lookup in a resource is ResourceGather, in a reference GatherV2 of the variable's Identity.
READS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"])
WRITING = ("Assign", "Apply", "ResourceApply", "SparseApply", "ResourceSparseApply", "ResourceScatter") + (
    # Not "Scatter": ScatterNd makes a tensor, ScatterNdNonAliasingAdd takes one.
    *("ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterMin", "ScatterMax", "ScatterUpdate"),
    *("ScatterNdAdd", "ScatterNdSub", "ScatterNdMin", "ScatterNdMax", "ScatterNdUpdate"),
)

# Ops that draw random numbers which are recorded and put back, and beginnings of the names of all that draw.
RANDOM = frozenset(
    ["RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "RandomShuffle", "RandomGamma"]
    + ["Multinomial", "ParameterizedTruncatedNormal", "RandomPoissonV2", "StatelessRandomUniform"]
    + ["StatelessRandomNormal"]
)
DRAWING_PREFIXES = ("Random", "Truncated", "Multinomial", "Stateless", "Parameterized")

# Stateful to TensorFlow, since what they hold is changed in place; yet they compute the same from the same.
WITHIN_A_RUN = ("TensorArray", "Stack", "TensorList", "CreateTemporary", "DestroyTemporary", "TemporaryVariable")
# Stateful where a function of theirs is; their StatelessWhile and StatelessIf kin are not.
FUNCTION_CALLS = frozenset(["While", "If", "Case", "StatefulPartitionedCall"])
# Stateful to TensorFlow, so that they run: an assertion may run once more unseen, what prints would print twice.
ASSERTING = frozenset(["Assert"])
PRINTING = frozenset(["Print", "PrintV2"])
# Ops that TensorFlow calls stateful, so that they are neither merged nor left out, and that give what they take.
CHECKING = frozenset(["CheckNumerics", "CheckNumericsV2", "GuaranteeConst", "DeepCopy"])

# Ops whose output depends on the shape of their input alone.
SHAPE_ONLY = frozenset(["Shape", "ShapeN", "VariableShape", "Size", "Rank", "ZerosLike", "OnesLike"])

# Ops of loops and branches as TensorFlow 1 builds them.
ENTERING = frozenset(["Enter", "RefEnter"])
LEAVING = frozenset(["Exit", "RefExit"])
LOOPING_BACK = frozenset(["NextIteration", "RefNextIteration"])
# A RefSwitch stands in the initial value of each of tf.train.ExponentialMovingAverage's variables.
CHOOSING = frozenset(["Switch", "RefSwitch"])
LEAVING_OR_MERGING = LEAVING | {"Merge", "RefMerge"}  # behind which a value is there whichever way was gone

# Ops that hand on the value of a variable as it is, and those that may hand it on in another dtype too.
READING_VARIABLES = ENTERING | {"Identity", "ReadVariableOp"}
READING_OR_CASTING = READING_VARIABLES | {"Cast"}

# Ops that hand on the numbers of their first input in their order: with their gradient; whatever the gradient does (a loss
# that is stopped is no tower's: it takes the first set, a gradient that is stopped is the same gradient); and as data of a
# forward pass, in whatever layout.
RESHAPING = frozenset(["Identity", "Reshape", "ExpandDims", "Squeeze"])
PASSING_WITH_GRADIENT = RESHAPING | {"CheckNumerics"}
PASSING_VALUES = PASSING_WITH_GRADIENT | {"StopGradient", "PreventGradient"}
PASSING_BUT_FOR_LAYOUT = (
    PASSING_VALUES | ENTERING | {"Transpose", "Snapshot", "TensorArrayScatterV3", "Print", "PlaceholderWithDefault"}
)
GROUPING = frozenset(["NoOp", "Identity", "ReadVariableOp"])  # groups of updates, and reads of what was written

# Ops that join the towers' tensors, and those that multiply by a factor or divide by it.
# tf.add is Add on 1.15 and AddV2 on 2.21, `a + b` AddV2 on both; tf.accumulate_n is AccumulateNV2 on 1.15, AddN on
# 2.21.
SUMMING = frozenset(["AddN", "Add", "AddV2", "AccumulateNV2"])
# tf.stack is Pack, tf.parallel_stack ParallelConcat, tf.concat ConcatV2; Concat is in graphs of TensorFlow 0.x.
STACKING_TENSORS = frozenset(["Pack", "ParallelConcat", "ConcatV2", "Concat"])
SCALING = frozenset(["Mul", "RealDiv", "Div", "DivNoNan"])
# tf.convert_to_tensor of tf.IndexedSlices, on 1.15 and on 2.21: rows that are there several times are added up.
DENSIFYING = frozenset(["UnsortedSegmentSum"])

# What optimizers and clipping compute with.
SQUARING = frozenset(["Square", "SquaredDifference"])
SQUARE_ROOTS = frozenset(["Sqrt", "Rsqrt"])
# tf.clip_by_value is a Minimum and a Maximum; clip_by_norm has a Maximum of norm and limit, clip_by_global_norm a
# Minimum of 1 / norm and 1 / limit, and on 1.15 a Select for norms that are not finite.
BOUNDING = frozenset(["Minimum", "Maximum", "ClipByValue", "Select", "SelectV2", "Merge"])

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
