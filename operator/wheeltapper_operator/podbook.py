"""The pods of training jobs by job and by node, so that neither a job nor a node asks through all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from wheeltapper_operator.pods import Pod
from wheeltapper_operator.reflector import Change


class PodBook:
    """The pods that exist, and whose job is known."""

    def __init__(self) -> None:
        self._of_job: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._on_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._sent_away: set[str] = set()

    def __len__(self) -> int:
        return sum(map(len, self._of_job.values()))

    def take(self, change: Change[Pod]) -> None:
        """Take in what became of a pod.

        A pod that is made anew bears the old one's name, and a watch that was broken does not tell of the end: what was
        known of the old one goes by what it was, not by its name.
        """
        if change.old is not None:
            _take_out(self._of_job, change.old.job_key, change.old.uid)
            _take_out(self._on_node, change.old.node, change.old.uid)
            if change.new is None or change.new.uid != change.old.uid:
                self._sent_away.discard(change.old.uid)
        if change.new is not None:
            self._of_job[change.new.job_key][change.new.uid] = change.new
            if change.new.node:
                self._on_node[change.new.node][change.new.uid] = change.new

    def of(self, job: str) -> Collection[Pod]:
        """Return the pods of the job with the key *job* (``namespace/name``)."""
        return self._of_job[job].values() if job in self._of_job else ()

    def running_on(self, node: str) -> dict[str, list[Pod]]:
        """Return the pods that run on *node*, by the key of their job."""
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        if node in self._on_node:
            for pod in self._on_node[node].values():
                if pod.phase == "Running":
                    found[pod.job_key].append(pod)
        return found

    def send_away(self, pods: Iterable[Pod]) -> None:
        """Take down that *pods* were there when their job was suspended: they are to end, by somebody's will."""
        self._sent_away.update(pod.uid for pod in pods)

    def was_sent_away(self, pod: Pod) -> bool:
        """True when *pod* ends because its job was suspended, also if that runs again by now."""
        return pod.leaving and pod.uid in self._sent_away

    def __iter__(self) -> Iterator[Pod]:
        for pods in self._of_job.values():
            yield from pods.values()


def _take_out(book: defaultdict[str, dict[str, Pod]], key: str, uid: str) -> None:
    if key in book:
        book[key].pop(uid, None)
        if not book[key]:
            del book[key]
