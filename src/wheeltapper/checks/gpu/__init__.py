"""Checks of the GPUs."""
