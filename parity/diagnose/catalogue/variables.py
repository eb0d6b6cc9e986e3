"""The causes of weights and other values of the port's own."""

from parity.diagnose.catalogue.info import CauseInfo, Proof, Wording

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "own_value",
        "a buffer, constant or weight that only the port has holds another value than the reference's",
        {
            "": Wording(
                "the port's own {tensor} is another than the reference's",
                "have the port make the value that the graph has: elsewhere than here nobody writes it into the port",
            ),
        },
        proof=Proof.NUMBERS | Proof.ONE_CHANGE,
    ),
    CauseInfo(
        "swapped_variables",
        "two weights of one shape are exchanged",
        {
            "variables": Wording(
                "{one} and {other} stand for each other",
                "exchange {one} and {other} in the mapping, or where the port uses them",
            ),
            "layers": Wording(
                "the layers {one} and {other} stand for each other",
                "exchange {one} and {other} in the mapping, or where the port uses them",
            ),
        },
        proof=Proof.RERUN,
    ),
    CauseInfo(
        # Either order has the same shape, so that no mapping by shapes notices.
        "gate_order",
        "the gates of a recurrent layer are in another order",
        {
            "": Wording(
                "the LSTM's gates come in TensorFlow's order (i, j, f, o) where torch's is i, f, g, o",
                (
                    'map the kernel with transform = "lstm_gates" and the bias with "lstm_bias(...)", which '
                    "reorder the gates"
                ),
            ),
            "blocks": Wording(
                "{layer}: the candidate reads the blocks of the kernel as {other}, the reference as {own}",
                "reorder the gates, or the mapping's blocks",
            ),
        },
        proof=Proof.ONE_CHANGE | Proof.RECOMPUTED | Proof.RERUN,
    ),
    CauseInfo(
        # Rows of a kernel behind an image are (height, width, channels) in TensorFlow, (channels, height, width) in
        # torch: as many.
        "flatten_order",
        "what is flattened in front of a weight is in another order",
        {
            "image": Wording(
                "the flatten before {variable} counts channels first in the port, last in the towers",
                (
                    'map its kernel with transform = "flatten_hwc({h}, {w}, {c})", or flatten in the order of the '
                    "towers (torch_ddp.like_tf.flatten)"
                ),
            ),
            "product": Wording(
                "{layer} takes what goes in flattened as {there} in place of {here} in the candidate",
                "flatten in the graph's order, or say it in the mapping's transform",
            ),
            "torch": Wording(
                "{layer} takes what goes in flattened as {there} in place of {here} in the candidate",
                (
                    'map its kernel with transform = "flatten_hwc({h}, {w}, {c})", or flatten in the graph\'s order '
                    "(torch_ddp.like_tf.flatten)"
                ),
            ),
        },
        proof=Proof.RECOMPUTED | Proof.RERUN,
    ),
    CauseInfo(
        # torch's RMSProp begins at 0 where TensorFlow's begins at 1, 57 times off at the first step (measured); its
        # Adagrad at 0 where TensorFlow's begins at 0.1, 5 times.
        "slot_initial_value",
        "a slot of the optimizer begins with another value",
        {
            "": Wording(
                "the optimizers start with other values in their slots",
                (
                    "give the port's optimizer TensorFlow's initial value (Adagrad: initial_accumulator_value, "
                    "RMSProp: 1), as torch_ddp.like_tf's have it"
                ),
            ),
        },
        proof=Proof.NUMBERS,
    ),
    CauseInfo(
        # torch's LSTM has two biases that both train where TensorFlow's has one: together they move twice as far.
        "trained_twice",
        "two parameters are trained where the reference has one variable",
        {
            "": Wording(
                "{parts} both train where the reference has one variable",
                "freeze one of them: {last}.requires_grad_(False)",
            ),
        },
        proof=Proof.NUMBERS,
        # Each of the two moves by the whole gradient: their sum moves twice as far.
        doubts=("learning_rate", "gradient_factor"),
    ),
    CauseInfo(
        "untied_weights",
        "parameters of the port's own where the reference has one variable",
        {
            "": Wording(
                "{names} are parameters of their own in the port; in the reference both are {variable}",
                "tie them: assign one parameter to both modules, as in head.weight = embedding.weight ({parameter})",
            ),
        },
        proof=Proof.STRUCTURE,
    ),
    CauseInfo(
        "shared_parameter",
        "one parameter of the port is used where the reference has several variables",
        {
            "": Wording(
                "the port computes with {shared} where the reference has {names}, a variable of its own",
                "make a module for each layer, in place of one that is called twice",
            ),
        },
        proof=Proof.STRUCTURE,
    ),
    CauseInfo(
        "missing_parameter",
        "a variable of the reference has nothing in the port",
        {
            "hidden": Wording(
                "the port has no parameter for {names}",
                "hold modules in nn.ModuleList or nn.ModuleDict, parameters in nn.ParameterList",
            ),
            "": Wording(
                "the port has no parameter for {names}",
                "add the parameter or the layer (bias=True, affine=True), as the graph has it",
            ),
        },
        proof=Proof.STRUCTURE,
    ),
    CauseInfo(
        # slim.batch_norm has no gamma unless scale=True, torch's norms have one unless affine=False.
        "extra_parameter",
        "the port trains a parameter that the reference does not have",
        {
            "": Wording(
                "the port has {names}, which the reference has not",
                "leave out the parameter or the layer (bias=False, affine=False), as the graph does",
            ),
        },
        proof=Proof.STRUCTURE,
    ),
    CauseInfo(
        "parameter_shape",
        "a parameter of the port is the reference's variable in another size",
        {
            "": Wording(
                "{parameter} is {shape} in the port, where the reference's {variable} is {wanted}",
                "give the port's module the sizes of the graph",
            ),
        },
        proof=Proof.STRUCTURE,
    ),
)
