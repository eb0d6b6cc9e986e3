"""TensorFlow 1 towers: one model, a replica per device, one update.

Runs on TensorFlow 1.15 (Python 3.7) and on TensorFlow 2.x in graph mode.
"""

from tf_towers.build import Tower as Tower
from tf_towers.build import Training as Training
from tf_towers.build import build as build
from tf_towers.combine import combine_gradients as combine_gradients
from tf_towers.errors import TowerError as TowerError
from tf_towers.facts import describe_variables as describe_variables
from tf_towers.facts import facts as facts
from tf_towers.initial import perturbed as perturbed
from tf_towers.layers import batch_norm as batch_norm
from tf_towers.optimizer import hyper_parameters as hyper_parameters
from tf_towers.optimizer import make_optimizer as make_optimizer
from tf_towers.place import place_variables as place_variables
from tf_towers.place import tower_devices as tower_devices
from tf_towers.session import session as session
from tf_towers.shard import shard as shard
from tf_towers.step import Stepper as Stepper
