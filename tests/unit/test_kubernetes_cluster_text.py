"""The texts that a test cluster of Kubernetes is made from, and the words when none can be made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.e2e.kubernetes.cluster import Unavailable, pytorch_job, requirements
from tests.e2e.kubernetes.cluster.cache import version
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.node import Node
from tests.e2e.kubernetes.cluster.settings import kind_config, node_names

NODES = [Node(name, Path("/folder") / name, Docker()) for name in node_names("lab", 2)]


def test_workers_are_named_as_kind_names_them():
    assert node_names("lab", 3) == ["lab-worker", "lab-worker2", "lab-worker3"]


def _mounted(stores: Path | None) -> list[tuple[str, list[str]]]:
    nodes = yaml.safe_load(kind_config("lab", NODES, stores))["nodes"]
    return [(node["role"], [mount["hostPath"] for mount in node["extraMounts"]]) for node in nodes]


def test_each_worker_has_its_own_folder_and_the_control_plane_has_none():
    assert _mounted(None) == [
        ("control-plane", []),
        ("worker", ["/folder/lab-worker"]),
        ("worker", ["/folder/lab-worker2"]),
    ]


def test_each_node_of_our_own_image_has_a_store_of_images():
    assert _mounted(Path("/stores")) == [
        ("control-plane", ["/stores/lab-control-plane"]),
        ("worker", ["/folder/lab-worker", "/stores/lab-worker"]),
        ("worker", ["/folder/lab-worker2", "/stores/lab-worker2"]),
    ]


def test_on_the_published_node_image_kinds_own_network_is_used():
    assert "networking" not in yaml.safe_load(kind_config("lab", NODES, None))


def test_our_own_node_image_asks_for_the_images_that_are_in_it():
    patches = yaml.safe_load(kind_config("lab", NODES, Path("/stores")))["kubeadmConfigPatches"]
    cluster = next(patch for patch in map(yaml.safe_load, patches) if patch["kind"] == "ClusterConfiguration")

    assert cluster["dns"]["imageTag"] == version("kubernetes", "github.com/coredns/coredns")


def test_a_pin_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"tools/training-operator/go\.mod pins no example"):
        version("training-operator", "example.org/none")


def test_a_job_without_workers_has_a_master_alone():
    assert list(pytorch_job("alone", 0, {})["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(requirements, "missing", lambda needed: ["docker.io", "iptables"])

    with pytest.raises(Unavailable, match=r"apt-get install --no-install-recommends docker\.io iptables"):
        requirements.require(private=True)


def test_who_is_not_root_is_told_what_to_type(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(requirements, "missing", lambda needed: [])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(Unavailable, match="type: sudo make test-kubernetes"):
        requirements.require(private=True, command="make test-kubernetes")


def test_a_word_that_chooses_no_docker_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WHEELTAPPER_DOCKER", "podman")

    with pytest.raises(Unavailable, match="private or machine"):
        requirements.is_private()
