"""The book of pods says, however pods come, move and go, what a search through all of them would say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wheeltapper_operator.podbook import PodBook
from wheeltapper_operator.pods import Pod
from wheeltapper_operator.reflector import Change

NODES = ("", "n1", "n2")


def a_pod(name: str, uid: str, job: str, node: str, phase: str) -> Pod:
    return Pod(name, "team", uid, job, node, phase, False, (), False, 0, 0.0, "")


PODS = st.builds(
    a_pod,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["1", "2"]),
    st.sampled_from(["train", "tune"]),
    st.sampled_from(NODES),
    st.sampled_from(["Pending", "Running", "Failed"]),
)


@given(st.lists(st.tuples(PODS, st.booleans()), max_size=30))
def test_it_says_what_a_search_through_all_pods_says(steps):
    book = PodBook()
    known: dict[str, Pod] = {}
    for pod, goes in steps:
        # A name has one pod at a time; one UID for each name and life.
        new = None if goes else pod_of(pod)
        old = known.pop(pod.name, None)
        if new is not None:
            known[pod.name] = new
        book.take(Change(pod.name, old, new))

    assert sorted(book, key=lambda pod: pod.name) == sorted(known.values(), key=lambda pod: pod.name)
    assert len(book) == len(known)
    for job in ("team/train", "team/tune"):
        assert {pod.uid for pod in book.of(job)} == {pod.uid for pod in known.values() if pod.job_key == job}
    for node in ("n1", "n2"):
        there = [pod for pod in known.values() if (pod.node, pod.phase) == (node, "Running")]
        found = book.running_on(node)
        assert {key: {pod.uid for pod in pods} for key, pods in found.items()} == {
            key: {pod.uid for pod in there if pod.job_key == key} for key in {pod.job_key for pod in there}
        }


def pod_of(pod: Pod) -> Pod:
    return a_pod(pod.name, f"{pod.name}-{pod.uid}", pod.job, pod.node, pod.phase)
