"""How the commands end."""

from __future__ import annotations

from typing import Final

BAD_INPUT: Final = 2
"""Input, configuration or files are wrong."""
NOT_FOUND: Final = 3
"""There is no answer: no such job, no cause found."""
