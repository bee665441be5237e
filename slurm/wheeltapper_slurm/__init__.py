"""The Slurm side: the client of slurmctld, and the controller service that decides and acts."""
