"""One line of a case's [mapping] table."""

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from parity.mapping.transforms import parse_transform


class MappingEntry(BaseModel):
    """Says which of the candidate's names one of the reference's becomes, and how.

    Made of a name, or of a dict with `to` and `transform`, as a case writes it.

    Attributes:
      to: the candidate's names; none where the candidate has no counterpart.
      transform: e.g. "hwio_to_oihw", or None to leave the choice to shapes and uses.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    to: tuple[str, ...]
    transform: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"to": value} if isinstance(value, str) else value

    @field_validator("to", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) and n for n in names):
            raise ValueError("expected a name, or a list of names")
        if len(set(names)) < len(names):
            raise ValueError("expected every name once")
        return tuple(names)

    @field_validator("transform")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None:
            parse_transform(value)  # raises: a misspelt transform shows with its line, before anything starts
        return value
