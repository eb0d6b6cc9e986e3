"""TensorFlow 1 towers: one model, a replica per device, one update.

Runs on TensorFlow 1.15 (Python 3.7) and on TensorFlow 2.x in graph mode.
"""

from tf_towers.checkpoint import read_checkpoint as read_checkpoint
from tf_towers.checkpoint import write_checkpoint as write_checkpoint
from tf_towers.errors import CheckpointError as CheckpointError
from tf_towers.errors import TowerError as TowerError
from tf_towers.facts import describe_variables as describe_variables
from tf_towers.facts import facts as facts
from tf_towers.graph.build import build as build
from tf_towers.graph.cross_tower.collectives import over_towers as over_towers
from tf_towers.graph.layers import batch_norm as batch_norm
from tf_towers.graph.layers import batch_norm_over_towers as batch_norm_over_towers
from tf_towers.graph.layers import local_response_normalization as local_response_normalization
from tf_towers.graph.options import Plan as Plan
from tf_towers.graph.options import make_plan as make_plan
from tf_towers.graph.placement import balanced as balanced
from tf_towers.graph.placement import homes as homes
from tf_towers.graph.placement import place_variables as place_variables
from tf_towers.graph.placement import tower_devices as tower_devices
from tf_towers.graph.regularization import decay_terms as decay_terms
from tf_towers.graph.regularization import effective_coefficient as effective_coefficient
from tf_towers.graph.regularization import regularization_terms as regularization_terms
from tf_towers.graph.shard import Shards as Shards
from tf_towers.graph.shard import shard as shard
from tf_towers.graph.shard import shard_uneven as shard_uneven
from tf_towers.graph.shard import tower_feeds as tower_feeds
from tf_towers.graph.tower import Tower as Tower
from tf_towers.graph.training import Training as Training
from tf_towers.graph.update.apply_update import all_finite as all_finite
from tf_towers.graph.update.batch_norm_updates import choose_updates as choose_updates
from tf_towers.graph.update.batch_norm_updates import racing_updates as racing_updates
from tf_towers.graph.update.clip import Clipped as Clipped
from tf_towers.graph.update.clip import clip_gradients as clip_gradients
from tf_towers.graph.update.clip import sum_duplicate_rows as sum_duplicate_rows
from tf_towers.graph.update.combine import combine_gradients as combine_gradients
from tf_towers.graph.update.learning_rate import make_learning_rate as make_learning_rate
from tf_towers.graph.update.loss_scale import LossScale as LossScale
from tf_towers.graph.update.moving_averages import Averages as Averages
from tf_towers.graph.update.optimizer import Part as Part
from tf_towers.graph.update.optimizer import hyper_parameters as hyper_parameters
from tf_towers.graph.update.optimizer import make_optimizer as make_optimizer
from tf_towers.graph.user_errors import float32_places as float32_places
from tf_towers.graph.variable_sharing import share as share
from tf_towers.recording import recording as recording
from tf_towers.session import perturbed as perturbed
from tf_towers.session import session as session
from tf_towers.step import Stepper as Stepper
