"""The whole file."""

from __future__ import annotations

from pydantic import Field

from wheeltapper.config.controller import ControllerSection, SlurmSection
from wheeltapper.config.kubernetes import KubernetesSection
from wheeltapper.config.node import AgentSection, ChecksSection, ContentionSection, NodeSection
from wheeltapper.config.policy import PolicySection
from wheeltapper.config.record import DiagnosisSection, LedgerSection, MetricsSection
from wheeltapper.config.section import Section


class Config(Section):
    """The whole file."""

    cluster: str = Field("cluster", description="The cluster's name in records.")
    node: NodeSection = NodeSection()
    agent: AgentSection = AgentSection()
    checks: ChecksSection = ChecksSection()
    contention: ContentionSection = ContentionSection()
    controller: ControllerSection = ControllerSection()
    policy: PolicySection = PolicySection()
    diagnosis: DiagnosisSection = DiagnosisSection()
    ledger: LedgerSection = LedgerSection()
    metrics: MetricsSection = MetricsSection()
    slurm: SlurmSection = SlurmSection()
    kubernetes: KubernetesSection = KubernetesSection()
