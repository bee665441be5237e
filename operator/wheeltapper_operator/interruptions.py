"""The record of an interruption as an object of the cluster."""

from __future__ import annotations

from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.ledger.model import Interruption
from wheeltapper_operator.api import Api, ApiError, Json, path_of
from wheeltapper_operator.gang import number_of
from wheeltapper_operator.jobs import Job, Kind

SENTENCE_MAX = 2048


def body(job: Job, kind: Kind, interruption: Interruption) -> Json:
    """Return the object. Its name follows from job, UID and attempt, so that no attempt is ever recorded twice."""
    diagnosis: Diagnosis = interruption.diagnosis
    number = number_of(job)
    root = diagnosis.root
    return {
        "apiVersion": names.GROUP,
        "kind": "Interruption",
        "metadata": {
            "name": f"{job.name[:200]}-{job.uid[:8]}-{number}",
            "namespace": job.namespace,
            # No ownerReference: the record outlives its job.
            "labels": {
                f"{names.PREFIX}/job": job.name[:63],
                f"{names.PREFIX}/label": diagnosis.label.replace("/", "."),
            },
        },
        "spec": {
            "job": job.name,
            "kind": kind.name,
            "uid": job.uid,
            "attempt": number,
            "label": diagnosis.label,
            "detail": diagnosis.detail,
            "symptom": diagnosis.symptom or "",
            "node": (root.evidence.node or "") if root else "",
            "confidence": diagnosis.confidence,
            "confirmed": diagnosis.confirmed,
            "decision": "requeue" if interruption.decision.job.requeue else "stop",
            "reason": interruption.decision.job.reason,
            "sentence": diagnosis.sentence[:SENTENCE_MAX],
            "at": interruption.decided_at,
            "record": codec.dump(interruption),
        },
    }


async def record(api: Api, job: Job, what: Json) -> Interruption:
    """Write the record, and return what stands there: for an attempt that has a record already, that one.

    Raises:
        SchedulerError: it could not be written.
    """
    try:
        written = await api.post(path_of(names.GROUP, "interruptions", job.namespace), what)
    except ApiError as error:
        if error.status != 409:
            raise
        written = await api.get(path_of(names.GROUP, "interruptions", job.namespace, what["metadata"]["name"]))
    return codec.load(Interruption, written["spec"]["record"])
