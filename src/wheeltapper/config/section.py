"""What every table of the configuration is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]

Folder = Annotated[Path, Field(strict=False)]


class Section(BaseModel):
    """A table of the file: unknown keys are errors, values are not coerced, nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
