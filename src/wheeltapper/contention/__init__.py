"""What a job had to share or was not given: processor time, memory, process numbers, files.

A job's cgroup is gone when the job is, so it is sampled while the job runs; :func:`judge` then says what was short,
with the numbers, and clears what was not.
"""

from __future__ import annotations

from wheeltapper.contention.judging import judge
from wheeltapper.contention.model import SIGNATURE, Sample
from wheeltapper.contention.places import of_job, of_process
from wheeltapper.contention.reading import read

__all__ = ["SIGNATURE", "Sample", "judge", "of_job", "of_process", "read"]
