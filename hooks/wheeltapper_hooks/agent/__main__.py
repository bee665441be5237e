"""``python -m wheeltapper_hooks.agent`` is ``wheeltapper agent``."""

from wheeltapper_hooks.agent.command import app

app()
