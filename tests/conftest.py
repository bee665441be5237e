"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# No timed assertion in the test suite: a busy machine is no bug.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
