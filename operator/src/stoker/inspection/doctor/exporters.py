"""Checks of the exporters: whether every node with GPUs has one, and whether its series say which pod has a GPU."""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta

from stoker.adapters.kubernetes.client import NODES, PODS, Object
from stoker.adapters.prometheus.metric_profile import MetricProfile
from stoker.findings.quantity import quantity
from stoker.findings.wording import count
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, failed, names, ok, warning
from stoker.inspection.doctor.metrics import NODE_LABELS, gpu_rows
from stoker.inspection.doctor.scene import Scene, field
from stoker.lint.kinds.gpu_resource import counts_gpus, gpu_request
from stoker.lint.kinds.pod import listed, mapping

SETTLED = timedelta(minutes=2)
"""A pod that started later may have no series yet. Chosen as two scrapes of the longest interval that is supported."""


async def exporters(scene: Scene) -> Outcome:
    """Every node with GPUs has series."""
    nodes = await scene.objects(NODES)
    rows = await gpu_rows(scene)
    return judge_nodes(gpu_nodes(nodes), {value for row in rows for value in _places(row["metric"])})


def gpu_nodes(nodes: Iterable[Object]) -> dict[str, frozenset[str]]:
    """The nodes that offer GPUs, whole ones or partitions, with every name that an exporter may have for each."""
    found = {}
    for node in nodes:
        offered = mapping(field(node, "status", "allocatable"))
        if any(counts_gpus(str(name)) and (quantity(number) or 0) > 0 for name, number in offered.items()):
            name = str(field(node, "metadata", "name"))
            host = field(node, "metadata", "labels", "kubernetes.io/hostname")
            addresses = [mapping(one).get("address") for one in listed(field(node, "status", "addresses"))]
            found[name] = frozenset(str(one) for one in (name, host, *addresses) if one)
    return found


def judge_nodes(nodes: Mapping[str, Set[str]], seen: Set[str]) -> Outcome:
    """`nodes` are those with GPUs and all their names; `seen` is what series of GPUs say of where they are."""
    if not nodes:
        return warning(
            "no node offers GPUs (nvidia.com/gpu, nvidia.com/mig-*, amd.com/gpu)",
            "Install the device plugin of the GPUs' vendor.",
        )
    silent = sorted(name for name, aliases in nodes.items() if not aliases & seen)
    if len(silent) == len(nodes):
        return warning(
            f"no series of a GPU names one of the {count(len(nodes), 'node')} with GPUs",
            f"Give the series a label with the node's name ({', '.join(NODE_LABELS[:3])}), by the exporter or by a"
            " relabeling. Where they have one, no exporter runs on these nodes.",
        )
    if silent:
        return failed(f"{len(silent)} of {count(len(nodes), 'node')} with GPUs have no series: {names(silent)}")
    return ok(f"all {count(len(nodes), 'node')} with GPUs have series")


async def pod_labels(scene: Scene) -> Outcome:
    """The series say which pods have the GPUs."""
    pods = await scene.objects(PODS)
    rows = [row["metric"] for row in await gpu_rows(scene)]
    profile = (await scene.metrics()).profile
    return judge_pods(pods_with_gpus(pods, scene.now), rows, profile)


def pods_with_gpus(pods: Iterable[Object], now: datetime) -> set[tuple[str, str]]:
    """Namespace and name of the pods that have had GPUs for a while."""
    return {
        (str(field(pod, "metadata", "namespace")), str(field(pod, "metadata", "name")))
        for pod in pods
        if field(pod, "status", "phase") == "Running" and _settled(pod, now) and _wants_gpus(pod)
    }


def judge_pods(pods: Set[tuple[str, str]], rows: Sequence[Mapping[str, str]], profile: MetricProfile) -> Outcome:
    """`pods` have GPUs; `rows` are the labels of the series of GPUs."""
    if not pods:
        raise NotCheckableError(f"no pod has had GPUs for {SETTLED.total_seconds() / 60:.0f} minutes")
    named = {pod for row in rows if (pod := profile.pod(row)) is not None}
    missing = sorted(pods - named)
    if not missing:
        return ok(f"the series name all {count(len(pods), 'pod')} with GPUs")
    found = f"{len(missing)} of {count(len(pods), 'pod')} with GPUs have no series"
    if not named:
        return failed(
            f"{found}: the series have no labels with a pod",
            "Start dcgm-exporter with DCGM_EXPORTER_KUBERNETES=true and mount the kubelet's pod-resources folder.",
        )
    if not pods & named:
        others = names(sorted(f"{namespace}/{name}" for namespace, name in named))
        return failed(
            f"{found}: the series name other pods, {others}, which may be the exporter's own",
            "Set honorLabels: true in the scrape configuration (ServiceMonitor), so that the exporter's labels stay.",
        )
    return warning(f"{found}: {names([f'{namespace}/{name}' for namespace, name in missing])}")


def _places(labels: Mapping[str, str]) -> Iterable[str]:
    for label in NODE_LABELS:
        if value := labels.get(label):
            yield value
            yield value.rpartition(":")[0] if label == "instance" else value


def _wants_gpus(pod: Object) -> bool:
    return any(gpu_request(mapping(one), "") is not None for one in listed(field(pod, "spec", "containers")))


def _settled(pod: Object, now: datetime) -> bool:
    containers = map(mapping, listed(field(pod, "status", "containerStatuses")))
    started = [field(one, "state", "running", "startedAt") for one in containers]
    times = [datetime.fromisoformat(text) for text in started if isinstance(text, str)]
    return bool(times) and now - max(times) >= SETTLED


CHECKS = (
    Check(
        name="exporters",
        group=Group.METRICS,
        what="Every node that offers GPUs (whole ones, MIG or other partitions) has series of them.",
        advice="Check the exporter's DaemonSet: its tolerations and node selector, and its pods on these nodes.",
        look=exporters,
        needs=("api-server", "gpu-samples"),
    ),
    Check(
        name="pod-labels",
        group=Group.METRICS,
        what="Every pod that has had GPUs for two minutes is named by series of them.",
        advice="Check the exporter's pods on these nodes, and that it maps GPUs to pods (docs/prometheus.md).",
        look=pod_labels,
        needs=("api-server", "gpu-samples"),
    ),
)

__all__ = ["CHECKS", "gpu_nodes", "judge_nodes", "judge_pods", "pods_with_gpus"]
