"""Which lesson has which exercises, and the numbers that they are checked against."""

from parity.teach.exercises.collectives import LOCAL_TRAINING, MOMENTS, RING
from parity.teach.exercises.combining import CLIP, COMBINE, EXAMPLES
from parity.teach.exercises.cutting import BUCKETS, SPLIT
from parity.teach.exercises.exercise import Exercise
from parity.teach.exercises.searching import FIRST_DIFFERENT
from parity.teach.exercises.sending import ACCUMULATE, COMPRESS
from parity.teach.exercises.sharding import SHARDED_STEP
from parity.teach.exercises.updates import MIXED_STEP, SCALED_RATE, SERVE
from parity.teach.exercises.waiting import WAIT_FOR

EXERCISES: dict[int, tuple[Exercise, ...]] = {
    1: (SPLIT,),
    2: (COMBINE, CLIP),
    3: (LOCAL_TRAINING,),
    4: (RING,),
    5: (SERVE,),
    7: (BUCKETS,),
    8: (MIXED_STEP,),
    9: (MOMENTS,),
    10: (EXAMPLES,),
    11: (SCALED_RATE,),
    13: (ACCUMULATE,),
    14: (COMPRESS,),
    15: (SHARDED_STEP,),
    16: (FIRST_DIFFERENT,),
    17: (WAIT_FOR,),
}
