"""Checks of what joins the node to its fabric."""
