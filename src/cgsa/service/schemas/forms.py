"""What comes in."""

from __future__ import annotations

from pydantic import Field

from cgsa.service.auth import NAME, Role
from cgsa.service.schemas.base import Form, Text, Time, Words


class Said(Form):
    """What a person says with a command."""

    text: Text = ""


class Remark(Form):
    """What a person has to say."""

    text: Words


class Shelving(Form):
    """For how long a case calls nobody, and why."""

    seconds: float = Field(gt=0, le=31 * 86_400, allow_inf_nan=False)
    text: Words


class Finding(Form):
    """What the machine really had, from when to when."""

    state: str = Field(min_length=1, max_length=200, pattern=r"\S")
    begin: Time
    end: Time


class NewToken(Form):
    """A token to be made."""

    name: str = Field(min_length=1, max_length=64, pattern=f"^{NAME}$")
    role: Role
