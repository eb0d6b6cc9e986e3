"""The terms of a report that are this project's own or narrower than elsewhere, as docs/glossary.md defines them."""

# Pages that open without a network have nothing to link to, so they carry these definitions; a test compares the two.
TERMS: tuple[tuple[str, str], ...] = (
    (
        "lockstep",
        "every step of both sides starts from the reference's state, so that a difference belongs to the step that shows it",
    ),
    ("free run", "every step starts from what the side's own previous step left (free-running)"),
    (
        "float64 shadow",
        "the steps of a side recomputed in float64 from the recorded states, inputs and random draws, which separates what "
        "rounding does from what a bug does",
    ),
    (
        "golden trace",
        "a trace of the reference that parity bless keeps, so that a port is judged where there is no TensorFlow",
    ),
    ("difference", "norm of candidate minus reference, for one tensor of one step"),
    (
        "absolute error, relative error",
        "of the worst element: the difference of its two values, and that over the reference's magnitude",
    ),
    (
        "scale",
        "the size of what was summed or updated to make a tensor; rounding is in proportion to it, also where the sum is "
        "near zero",
    ),
    (
        "tolerance",
        "how large a difference may be, measured by what float32 and float64 rounding do to this tensor in this step; in "
        "JSON allowed",
    ),
    ("ratio", "difference over tolerance: up to 1 is the same"),
    (
        "run-to-run difference",
        "the difference between two runs of one side from the same states, 0 where runs repeat bit for bit; in JSON repeats",
    ),
    (
        "non-differentiable point",
        "a state where a function has one-sided gradients only, and rounding decides which is computed: a ReLU at 0, two "
        "equal maxima. Both sides are re-run from perturbed weights there",
    ),
    (
        "structurally zero gradient",
        "a gradient that is zero by the structure of the graph, as that of a bias in front of a batch norm; what is "
        "computed for it is rounding",
    ),
)
