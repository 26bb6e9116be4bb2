"""LeaderWorkerSets: groups of pods of one template or of two."""

from datetime import UTC, datetime

import pytest

from stoker.findings.vocabulary import JobType
from stoker.lint.review import review_submission
from stoker.policy.effective import BUILT_IN
from tests.lint.kinds.manifests import faults, read

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HEAD = """
    apiVersion: leaderworkerset.x-k8s.io/v1
    kind: LeaderWorkerSet
    metadata: {name: vllm}
    spec:
      replicas: 2
      leaderWorkerTemplate:
        size: 4
"""
LEADER = """
        leaderTemplate:
          spec:
            containers:
            - name: leader
              image: vllm/vllm-openai:v0.9.1
              command: [sh, -c, "ray start --head; vllm serve m --tensor-parallel-size 8 --pipeline-parallel-size 4
                --distributed-executor-backend ray"]
              resources: {limits: {nvidia.com/gpu: 8}}
"""
WORKER = """
        workerTemplate:
          spec:
            containers:
            - name: worker
              image: vllm/vllm-openai:v0.9.1
              command: [sh, -c, "ray start --address=$(LWS_LEADER_ADDRESS):6379 --block"]
              resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_pods_of_one_template_are_groups_of_that_size() -> None:
    (seen,) = read(HEAD + WORKER)
    assert (seen.nodes, seen.nodes_known, seen.copies, seen.gpus) == (4, True, 2, 64)
    assert (seen.environment["LWS_GROUP_SIZE"], seen.environment["LWS_WORKER_INDEX"]) == ("4", None)
    assert seen.job_type is JobType.SERVING
    assert seen.paths.image == "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].image"


def test_a_leader_of_its_own_has_peers_that_nobody_counts() -> None:
    leader, worker = read(HEAD + LEADER + WORKER)
    assert (leader.copies, worker.copies, leader.gpus + worker.gpus) == (2, 6, 64)
    assert (leader.may_have_peers, leader.environment["LWS_WORKER_INDEX"]) == (True, "0")
    assert faults(HEAD + LEADER + WORKER) == []


@pytest.mark.parametrize(
    "first, found",
    [
        ("bash /opt/serving.sh leader --ray_cluster_size=4", set()),
        ("echo leader  # this group needs no ray", {"serving-parallelism"}),
    ],
)
def test_a_leader_serves_on_the_gpus_of_its_workers_if_its_script_joins_them(first: str, found: set[str]) -> None:
    script = (
        f"|\n                {first}\n                vllm serve m --tensor-parallel-size 8 --pipeline-parallel-size 4"
    )
    template = LEADER[: LEADER.index("command:")], LEADER[LEADER.index("              resources:") :]
    leader, _ = read(f"""{HEAD}{template[0]}command:
              - sh
              - -c
              - {script}
{template[1]}{WORKER}""")
    findings = review_submission(leader, BUILT_IN, now=NOW).findings
    assert {finding.rule for finding in findings} & {"serving-parallelism"} == found


def test_a_group_of_one_has_no_workers() -> None:
    alone = HEAD.replace("size: 4", "size: 1")
    assert [seen.gpus for seen in read(alone + LEADER + WORKER)] == [16]
    (seen,) = read(alone + WORKER)
    assert (seen.environment["LWS_WORKER_INDEX"], seen.nodes, seen.nodes_known) == ("0", 1, True)


def test_a_group_needs_a_template_for_its_workers() -> None:
    assert faults(HEAD + LEADER) == [("schema", "spec.leaderWorkerTemplate.workerTemplate")]
    assert faults(HEAD.replace("size: 4", "size: many") + WORKER) == [("schema", "spec.leaderWorkerTemplate.size")]
