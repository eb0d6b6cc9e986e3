"""Reads and checks case files: what is compared with what, and how."""

from parity.case.declared import Declared as Declared
from parity.case.declared import as_declared as as_declared
from parity.case.declared import declared_differences as declared_differences
from parity.case.declared import without as without
from parity.case.errors import CaseError as CaseError
from parity.case.load import OVERRIDES as OVERRIDES
from parity.case.load import load_case as load_case
from parity.case.load import load_mapping as load_mapping
from parity.case.models import Adadelta as Adadelta
from parity.case.models import Adagrad as Adagrad
from parity.case.models import Adam as Adam
from parity.case.models import Case as Case
from parity.case.models import Clip as Clip
from parity.case.models import Ema as Ema
from parity.case.models import Expect as Expect
from parity.case.models import Ftrl as Ftrl
from parity.case.models import Momentum as Momentum
from parity.case.models import RmsProp as RmsProp
from parity.case.models import Schedule as Schedule
from parity.case.models import Sgd as Sgd
from parity.case.models import TfSide as TfSide
from parity.case.models import TorchSide as TorchSide
from parity.case.models import WeightDecay as WeightDecay
from parity.case.not_offered import NOT_OFFERED as NOT_OFFERED
from parity.case.source import find_source as find_source
from parity.mapping import MappingEntry as MappingEntry
