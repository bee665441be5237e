"""The resident agent: one process and one event loop per node, which keeps the node's verdict fresh.

``watch`` looks (kernel log, checks) and judges, ``store`` remembers, ``server`` and ``hooks`` answer the thin client,
``leave`` takes the node out when it must go, ``outbox`` delivers evidence to the controller, ``daemon`` holds them
together.
"""
