"""Computes a recorded script once more in float64, from its graph: the shadow that level 1 is decided with."""

from tf_towers.float64.errors import CannotShadow as CannotShadow
from tf_towers.shadow.build import make_shadow as make_shadow
