"""The resident agent: one process and one event loop per node, which keeps the node's verdict fresh.

``kernel_watch`` and ``runner`` look (kernel log, checks), ``watch`` judges, ``job_cgroups`` samples the jobs, ``store``
remembers, ``server`` and ``hooks`` answer the thin client, ``leave`` takes the node out when it must go, ``outbox``
delivers evidence to the controller, ``daemon`` holds them together.
"""
