"""Joins the variables of two sides once, names and layouts; whatever hangs on a variable follows."""

from parity.mapping import layouts as _layouts  # noqa: F401  (fills the table of transforms)
from parity.mapping import packed as _packed  # noqa: F401  (likewise)
from parity.mapping.draft import Draft as Draft
from parity.mapping.draft import draft_mapping as draft_mapping
from parity.mapping.entry import MappingEntry as MappingEntry
from parity.mapping.guesses import Guess as Guess
from parity.mapping.guesses import Numbers as Numbers
from parity.mapping.match import build_mapping as build_mapping
from parity.mapping.match import leave_idle_out as leave_idle_out
from parity.mapping.match import mapping_notes as mapping_notes
from parity.mapping.match import require_total as require_total
from parity.mapping.names import only_slots_left as only_slots_left
from parity.mapping.names import slot_partner as slot_partner
from parity.mapping.propose import Proposal as Proposal
from parity.mapping.propose import Values as Values
from parity.mapping.propose import numbers_of as numbers_of
from parity.mapping.propose import numbers_when_asked as numbers_when_asked
from parity.mapping.propose import propose as propose
from parity.mapping.propose import proposed_toml as proposed_toml
from parity.mapping.structure import NOTHING as NOTHING
from parity.mapping.structure import Structure as Structure
from parity.mapping.structure import as_far_as_it_goes as as_far_as_it_goes
from parity.mapping.transforms import TRANSFORMS as TRANSFORMS
from parity.mapping.transforms import Transform as Transform
from parity.mapping.transforms import parse_transform as parse_transform
from parity.mapping.transforms import register as register
from parity.mapping.units import Unit as Unit
from parity.mapping.variable_map import Mapping as Mapping
from parity.mapping.variable_map import Pair as Pair
from parity.mapping.variables import MappingError as MappingError
from parity.mapping.variables import Variable as Variable
from parity.mapping.variables import variables_of as variables_of
