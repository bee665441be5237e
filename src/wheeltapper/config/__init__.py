"""The configuration: one TOML file, one model, and an error that names the key when something is wrong.

A file whose name ends in .json holds the same tree as JSON, which is how a chart renders its values faithfully.

Every default stands in its section with its unit and its reason. ``WHEELTAPPER_CONFIG`` names another file.
"""

from __future__ import annotations

from wheeltapper.config.controller import ControllerSection, SlurmSection
from wheeltapper.config.kubernetes import KubernetesSection, PodPreflightSection
from wheeltapper.config.node import AgentSection, ChecksSection, ContentionSection, NodeSection, ProgramSection
from wheeltapper.config.policy import BudgetSection, Mode, PolicySection, ReleaseSection
from wheeltapper.config.reading import explain, load, parse, path
from wheeltapper.config.record import DiagnosisSection, LedgerSection, MetricsSection
from wheeltapper.config.section import Section
from wheeltapper.config.tree import Config

__all__ = [
    "AgentSection",
    "BudgetSection",
    "ChecksSection",
    "Config",
    "ContentionSection",
    "ControllerSection",
    "DiagnosisSection",
    "KubernetesSection",
    "LedgerSection",
    "MetricsSection",
    "Mode",
    "NodeSection",
    "PodPreflightSection",
    "PolicySection",
    "ProgramSection",
    "ReleaseSection",
    "Section",
    "SlurmSection",
    "explain",
    "load",
    "parse",
    "path",
]
