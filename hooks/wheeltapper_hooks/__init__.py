"""What runs on a node: the thin client that the Slurm hooks call, and the resident agent that it asks."""
