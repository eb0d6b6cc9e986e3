"""Finds the layer where two forward passes part, without anybody naming layers.

Both sides keep the forward pass of one tower in one step, from the same weights on the same inputs in float64: every op
between inputs and loss, what it takes, which weights it reads, what it gives (`parity.trace.Forward`). Which op of the
one side is which of the other is not asked at first: an output of the reference is *reached* by the candidate where any
output of that one holds the same numbers, in whatever order of axes, down to rounding. So neither a layout, nor a bias
that is added inside a module, nor an activation that belongs to it matters: what a side never shows between two ops is
no difference as long as something computed from it is reached. Outputs that are not reached, nor anything computed from
them, lie *behind the difference*; the first of these whose inputs are all right is where it begins. Only then are two
outputs paired, through the map of the variables (variable, parameter, the function that reads it) or, for ops without
weights, by where the candidate's own outputs cease to be reached; axes are put in the order, and bias and activation
are added or not, that leaves them nearest. All of this locates and decides nothing: it is asked only of two sides whose
losses, statistics or outputs differ already, and where no place is found the first difference stays what it was.
"""

from parity.locate.rearranged import at_the_mover as at_the_mover
from parity.locate.rearranged import in_front as in_front
from parity.locate.search import Location as Location
from parity.locate.search import locate as locate
