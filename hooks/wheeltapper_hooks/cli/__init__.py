"""Commands that are about this node."""
