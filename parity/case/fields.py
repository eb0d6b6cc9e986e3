"""What every table of a case is: exactly the keys it names, and the types of values that many of them take."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Precision = Literal["float32", "float64"]
Combine = Literal["mean", "sum"]
# A module, dotted or not, and a name at its top level: no methods, no nested functions.
FUNCTION = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
Function = Annotated[str, StringConstraints(pattern=FUNCTION)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
# Infinity is above 0, and TOML has a way to write it.
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """Takes exactly the keys it names, each in exactly its type, and never changes."""

    # Strict: "20" is no number of steps, and true no number. Frozen: a case is handed to both sides and to every
    # experiment.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", protected_namespaces=())
