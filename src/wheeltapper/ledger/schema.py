"""The tables of a ledger, version by version. Braces hold what the two databases spell differently.

A record's identity is its cluster and the scheduler's own word for it (``alpha/12@900``), never a number that one file
has given out: so records survive restarts and ledgers of several clusters can be merged, twice without harm.
"""

from __future__ import annotations

from wheeltapper.errors import LedgerError
from wheeltapper.ledger.database import Database

OLDEST = """
CREATE TABLE interruption (
    attempt {text} PRIMARY KEY, job {text} NOT NULL, label {text} NOT NULL, requeue {text} NOT NULL,
    decided_at {real} NOT NULL, body {text} NOT NULL
);
CREATE INDEX interruption_job ON interruption (job);
CREATE INDEX interruption_decided_at ON interruption (decided_at);
CREATE TABLE act (
    id {id}, attempt {text} NOT NULL REFERENCES interruption, kind {text} NOT NULL,
    target {text} NOT NULL, value {text} NOT NULL, outcome {text} NOT NULL, note {text} NOT NULL
);
CREATE INDEX act_outcome ON act (outcome);
CREATE INDEX act_attempt ON act (attempt);
CREATE TABLE quarantine (id {id}, node {text} NOT NULL, at {real} NOT NULL, body {text} NOT NULL);
CREATE INDEX quarantine_node ON quarantine (node, at)
"""

SET_ASIDE = """
ALTER TABLE act RENAME TO act_1;
ALTER TABLE quarantine RENAME TO quarantine_1;
ALTER TABLE interruption RENAME TO interruption_1;
DROP INDEX interruption_job;
DROP INDEX interruption_decided_at;
DROP INDEX act_outcome;
DROP INDEX act_attempt;
DROP INDEX quarantine_node
"""

# A report sums over every interruption. What it sums is added up when it is written, a day and a month at a time; rows
# are read only for the days at the edge of what is asked for. The whole record, a kilobyte or more, lies in `body`.
RECORD = """
CREATE TABLE interruption (
    id {text} PRIMARY KEY, cluster {text} NOT NULL, attempt {text} NOT NULL, job {text} NOT NULL,
    job_name {text} NOT NULL, user_name {text} NOT NULL, partition_name {text} NOT NULL,
    label {text} NOT NULL, requeue {text} NOT NULL, decided_at {real} NOT NULL, ended_at {real} NOT NULL,
    run_s {int} NOT NULL, lost_s {int} NOT NULL, nodes {int} NOT NULL, gpus {int} NOT NULL, source {text} NOT NULL
) {clustered};
CREATE INDEX interruption_job ON interruption (cluster, job);
CREATE INDEX interruption_decided_at ON interruption (decided_at, id);
CREATE TABLE body (id {text} PRIMARY KEY, body {text} NOT NULL);
CREATE TABLE suspect (
    id {text} NOT NULL, cluster {text} NOT NULL, node {text} NOT NULL, gpu {text} NOT NULL, label {text} NOT NULL,
    decided_at {real} NOT NULL, PRIMARY KEY (id, node, gpu)
) {clustered};
CREATE INDEX suspect_decided_at ON suspect (decided_at, cluster, node, label, id);
CREATE INDEX suspect_node ON suspect (cluster, node, decided_at);
CREATE TABLE finding (
    id {text} NOT NULL, position {int} NOT NULL, signature {text} NOT NULL, label {text} NOT NULL,
    detail {text} NOT NULL, role {text} NOT NULL, source {text} NOT NULL, node {text} NOT NULL, gpu {text} NOT NULL,
    at {real}, PRIMARY KEY (id, position)
) {clustered};
CREATE INDEX finding_gpu ON finding (signature, node, gpu);
CREATE TABLE act (
    id {id}, cluster {text} NOT NULL, attempt {text} NOT NULL, kind {text} NOT NULL,
    target {text} NOT NULL, value {text} NOT NULL, outcome {text} NOT NULL, note {text} NOT NULL
);
CREATE INDEX act_outcome ON act (cluster, outcome);
CREATE INDEX act_attempt ON act (cluster, attempt);
CREATE TABLE quarantine (
    id {text} PRIMARY KEY, cluster {text} NOT NULL, node {text} NOT NULL, at {real} NOT NULL, body {text} NOT NULL
);
CREATE INDEX quarantine_node ON quarantine (cluster, node, at);
CREATE TABLE node_state (
    cluster {text} NOT NULL, node {text} NOT NULL, at {real} NOT NULL, state {text} NOT NULL, reason {text} NOT NULL,
    PRIMARY KEY (cluster, node, at, state)
);
CREATE TABLE run (
    id {text} PRIMARY KEY, cluster {text} NOT NULL, job {text} NOT NULL, job_name {text} NOT NULL,
    user_name {text} NOT NULL, partition_name {text} NOT NULL, started_at {real} NOT NULL, ended_at {real} NOT NULL,
    run_s {int} NOT NULL, nodes {int} NOT NULL, gpus {int} NOT NULL
) {clustered};
CREATE INDEX run_ended_at ON run (ended_at);
CREATE TABLE sum_kind (
    day {int} NOT NULL, cluster {text} NOT NULL, label {text} NOT NULL, number {int} NOT NULL, requeued {int} NOT NULL,
    gpu_s {int} NOT NULL, lost_s {int} NOT NULL, PRIMARY KEY (day, cluster, label)
) {clustered};
CREATE TABLE sum_size (
    day {int} NOT NULL, cluster {text} NOT NULL, nodes {int} NOT NULL, partition_name {text} NOT NULL,
    faults {int} NOT NULL, number {int} NOT NULL, runs {int} NOT NULL, run_s {int} NOT NULL, gpu_s {int} NOT NULL,
    PRIMARY KEY (day, cluster, nodes, partition_name)
) {clustered};
CREATE TABLE sum_node (
    month {int} NOT NULL, cluster {text} NOT NULL, node {text} NOT NULL, label {text} NOT NULL, number {int} NOT NULL,
    first {real} NOT NULL, last {real} NOT NULL, PRIMARY KEY (month, cluster, node, label)
) {clustered}
"""

LATER: tuple[str, ...] = ()
"""Each entry takes the tables one version further; new ledgers run all of them too."""

VERSION = 2 + len(LATER)


def is_behind(database: Database) -> bool:
    """True when the tables are older than this program.

    Raises:
        LedgerError: they are newer.
    """
    version = database.version()
    if version > VERSION:
        raise LedgerError(f"the ledger {database.name} was written by a newer version of wheeltapper")
    return version < VERSION
