"""Checks of the machine around the GPUs."""
