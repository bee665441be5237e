"""Evidence that is no log text: counters, cgroup files, event logs of a BMC, records of schedulers, dumps.

Each kind of document has one small reader in ``readers/``, which recognises it by content. What only several documents
together say (counters before and after, the dumps of all ranks) is judged in ``judging/``.
"""

from wheeltapper.inputs.case import Case, conclude
from wheeltapper.inputs.model import Document, Reading
from wheeltapper.inputs.registry import LARGEST, reader_for

__all__ = ["LARGEST", "Case", "Document", "Reading", "conclude", "reader_for"]
