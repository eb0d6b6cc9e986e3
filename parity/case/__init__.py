"""Reads and checks case files: what is compared with what, and how."""

from parity.case.errors import CaseError as CaseError
from parity.case.intended import Declared as Declared
from parity.case.intended import as_declared as as_declared
from parity.case.intended import declared_differences as declared_differences
from parity.case.intended import without as without
from parity.case.load import OVERRIDES as OVERRIDES
from parity.case.load import load_case as load_case
from parity.case.load import load_mapping as load_mapping
from parity.case.optimizers import Adadelta as Adadelta
from parity.case.optimizers import Adagrad as Adagrad
from parity.case.optimizers import Adam as Adam
from parity.case.optimizers import Clip as Clip
from parity.case.optimizers import Ema as Ema
from parity.case.optimizers import Ftrl as Ftrl
from parity.case.optimizers import Momentum as Momentum
from parity.case.optimizers import RmsProp as RmsProp
from parity.case.optimizers import Schedule as Schedule
from parity.case.optimizers import Sgd as Sgd
from parity.case.optimizers import WeightDecay as WeightDecay
from parity.case.schema import Case as Case
from parity.case.schema import Expect as Expect
from parity.case.schema import TfSide as TfSide
from parity.case.schema import TorchSide as TorchSide
from parity.case.validate import NOT_OFFERED as NOT_OFFERED
from parity.case.validate import find_source as find_source
from parity.mapping import MappingEntry as MappingEntry
