"""The process that plays the GPUs of a cluster: one exporter for all simulated nodes.

It watches nodes and pods, gives each pod that is bound to a node its GPUs there (the lowest free ones, for the pod's
life, no GPU twice) and shows what its scenario says, from its container's start in `status.containerStatuses`.

    GET /dcgm/metrics          every GPU of every node; with pod labels while a pod has it
    GET /metrics/cadvisor      CPU, memory, network and disk of every running pod
    GET /pods                  the pods that are played, as JSON: what the history is written from
"""

import argparse
import json
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from e2e.cluster.api import ApiClient, ApiError
from e2e.telemetry.metrics import (
    CADVISOR_PATH,
    DCGM_PATH,
    GPU_RESOURCE,
    Gpu,
    PlayedPod,
    PodPlayer,
    Series,
    annotation,
    device_labels,
    gpu_container,
    idle_series,
    whole_number,
)
from e2e.telemetry.products import product_named
from e2e.telemetry.samples import ScenarioError, idle_gpu

_log = logging.getLogger(__name__)
_RANK = "batch.kubernetes.io/job-completion-index"
_IDLE_SCENARIO = ""


class Stage:
    """Who has which GPU: the nodes, the pods on them and their players. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[int, str]] = {}
        self._players: dict[str, PodPlayer] = {}
        self._early: dict[str, dict[str, Any]] = {}
        """Pods that are bound to a node not seen yet."""

    def node_changed(self, kind: str, node: dict[str, Any]) -> None:
        name = node["metadata"]["name"]
        with self._lock:
            if kind == "DELETED":
                self._nodes.pop(name, None)
                return
            gpus = int(node.get("status", {}).get("capacity", {}).get(GPU_RESOURCE, 0))
            self._nodes[name] = (gpus, node["metadata"].get("labels", {}).get("nvidia.com/gpu.product", ""))
            waiting = [uid for uid, pod in self._early.items() if pod["spec"]["nodeName"] == name]
            for uid in waiting:
                self._enter(self._early.pop(uid))

    def pod_changed(self, kind: str, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        with self._lock:
            if kind == "DELETED" or pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
                self._players.pop(uid, None)
                self._early.pop(uid, None)
            elif node := pod["spec"].get("nodeName"):
                if node in self._nodes:
                    self._enter(pod)
                else:
                    self._early[uid] = pod

    def pods_listed(self, pods: Iterable[dict[str, Any]]) -> None:
        """After a list: whoever is not in it is gone."""
        pods = list(pods)
        uids = {pod["metadata"]["uid"] for pod in pods}
        with self._lock:
            for uid in [uid for uid in self._players if uid not in uids]:
                del self._players[uid]
        for pod in pods:
            self.pod_changed("ADDED", pod)

    def _enter(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        known = self._players.get(uid)
        container, count = gpu_container(pod)
        started = _started(pod, container["name"])
        scenario = annotation(pod, "scenario") or _IDLE_SCENARIO
        if known is not None and (known.pod.started, known.pod.scenario) == (started, scenario):
            return
        node = pod["spec"]["nodeName"]
        if known is not None:
            played = replace(known.pod, started=started, scenario=scenario)
        else:
            total, product = self._nodes[node]
            taken = {index for player in self._players.values() if player.pod.node == node for index in player.pod.gpus}
            free = [index for index in range(total) if index not in taken]
            played = PlayedPod(
                uid=uid,
                namespace=pod["metadata"]["namespace"],
                name=pod["metadata"]["name"],
                node=node,
                container=container["name"],
                image=container["image"],
                product=product,
                gpus=tuple(free[:count]),
                rank=whole_number((pod["metadata"].get("annotations") or {}).get(_RANK)),
                started=started,
                scenario=scenario,
                device_labels=device_labels(pod),
            )
        try:
            program = played.program()
        except ScenarioError as error:
            _log.error("%s/%s is at rest: %s", played.namespace, played.name, error)
            program = replace(played, scenario=_IDLE_SCENARIO).program()
        self._players[uid] = PodPlayer(played, program)

    def players(self) -> list[PodPlayer]:
        with self._lock:
            return list(self._players.values())

    def free_gpus(self) -> list[Gpu]:
        """The GPUs that no pod has."""
        with self._lock:
            taken = {(player.pod.node, index) for player in self._players.values() for index in player.pod.gpus}
            return [
                Gpu(node=node, index=index, product=product)
                for node, (count, product) in self._nodes.items()
                for index in range(count)
                if (node, index) not in taken
            ]


def _started(pod: dict[str, Any], container: str) -> float | None:
    for status in pod.get("status", {}).get("containerStatuses") or []:
        started = ((status.get("state") or {}).get("running") or {}).get("startedAt")
        if status["name"] == container and started:
            return datetime.fromisoformat(started).timestamp()
    return None


def exposition(series: Iterable[Series]) -> str:
    """The Prometheus text format, the series of a name together."""
    lines: dict[str, list[str]] = defaultdict(list)
    for one in series:
        time = "" if one.taken_at is None else f" {round(one.taken_at * 1000)}"
        lines[one.name].append(f"{one.name}{{{one.labels}}} {one.value}{time}")
    return "".join("\n".join(group) + "\n" for group in lines.values())


def follow(client: ApiClient, stage: Stage, ready: threading.Event) -> None:
    """List and watch nodes and pods for ever; after any break list again. Starts a thread for the nodes."""

    def nodes() -> None:
        def listed(items: list[dict[str, Any]]) -> None:
            for item in items:
                stage.node_changed("ADDED", item)
            nodes_ready.set()

        _watch(client, "/api/v1/nodes", listed, stage.node_changed)

    nodes_ready = threading.Event()
    threading.Thread(target=nodes, daemon=True).start()
    nodes_ready.wait()

    def listed(items: list[dict[str, Any]]) -> None:
        stage.pods_listed(items)
        ready.set()

    _watch(client, "/api/v1/pods", listed, stage.pod_changed)


def _watch(client: ApiClient, path: str, listed: Any, changed: Any) -> None:
    while True:
        try:
            answer = client.get(path)
            listed(answer["items"])
            version = answer["metadata"]["resourceVersion"]
            while True:
                for event in client.watch(f"{path}?resourceVersion={version}"):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        changed(event["type"], event["object"])
        except (ApiError, OSError, ValueError) as error:
            _log.info("watch of %s: %s", path, error)
            time.sleep(0.5)  # the API server is away or has forgotten this version


def serve(stage: Stage, port: int, interval: float) -> None:
    """Answer scrapes until the process is ended; `interval` is over how many seconds PROF means go."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            now = time.time()
            if self.path == DCGM_PATH:
                series = [one for player in stage.players() for one in player.dcgm(now, interval)]
                for gpu in stage.free_gpus():
                    product = product_named(gpu.product)
                    series += idle_series(gpu, idle_gpu(product), product)
                self._answer(200, exposition(series), "text/plain; version=0.0.4")
            elif self.path == CADVISOR_PATH:
                series = [one for player in stage.players() for one in player.cadvisor(now)]
                self._answer(200, exposition(series), "text/plain; version=0.0.4")
            elif self.path == "/pods":
                self._answer(200, json.dumps([asdict(player.pod) for player in stage.players()]), "application/json")
            else:
                self._answer(404, f"no {self.path} here\n", "text/plain")

        def _answer(self, status: int, text: str, content_type: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Scrapes are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.serve_forever()


def main() -> None:
    """`python -m e2e.telemetry.exporter --kubeconfig FILE --port N --interval SECONDS`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--interval", type=float, default=30.0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stage, ready = Stage(), threading.Event()
    client = ApiClient(arguments.kubeconfig)
    threading.Thread(target=follow, args=(client, stage, ready), daemon=True).start()
    ready.wait()
    serve(stage, arguments.port, arguments.interval)


if __name__ == "__main__":
    main()
