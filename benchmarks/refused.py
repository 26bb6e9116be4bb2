"""What DLJobs that the API server refuses cost it: requests a second, while nothing changes.

A quota refuses the Jobs of many DLJobs of one namespace. Once each has been tried, the API server's own counters tell
what the controller asks in the following minutes, less what it asked before there was any of them; and how long a
bystander's job in another namespace takes to be suspended meanwhile.

    python -m benchmarks.refused --jobs 1000 --seconds 120
"""

import argparse
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from e2e.cluster.provider import Cluster, create
from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.lifecycle.workload import DLJobs

SAMPLE = re.compile(r"^apiserver_request_total\{([^}]*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
COUNTED = frozenset({"jobs", "dljobs", "events", "services"})


def requests(cluster: Cluster) -> Counter[tuple[str, str]]:
    """The API server's requests so far, by verb and resource."""
    found: Counter[tuple[str, str]] = Counter()
    for labels, value in SAMPLE.findall(cluster.kubectl("get", "--raw", "/metrics")):
        named = dict(LABEL.findall(labels))
        if named.get("resource") in COUNTED and named.get("verb") != "WATCH":
            found[named["verb"], named["resource"]] += int(float(value))
    return found


def rate(cluster: Cluster, seconds: float) -> dict[tuple[str, str], float]:
    """Requests a second within the next so many seconds."""
    before, start = requests(cluster), time.monotonic()
    time.sleep(seconds)
    after, took = requests(cluster), time.monotonic() - start
    return {key: round((after[key] - before[key]) / took, 2) for key in after if after[key] > before[key]}


def main() -> None:
    """Measure, and print what was found."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=1000)
    options.add_argument("--seconds", type=float, default=120.0)
    chosen = options.parse_args()
    with create(name="refused", report=print) as cluster:
        cluster.add_nodes(1)
        operator = Operator(cluster)
        operator.start(scan_interval="1h")
        bystander = DLJobs(cluster, cluster.create_namespace("bystander"))
        crowd = DLJobs(cluster, cluster.create_namespace("crowd"))
        quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/jobs.batch": "0"}}}
        cluster.api("POST", f"/api/v1/namespaces/{crowd.namespace}/resourcequotas", quota)
        bystander.create("bystander", gpusPerNode=1)
        bystander.wait_phase("bystander", "Running")
        print("at rest:", rate(cluster, 20.0))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: crowd.create(f"refused-{number}", gpusPerNode=1), range(chosen.jobs)))
        path = f"/apis/stoker.dev/v1alpha1/namespaces/{crowd.namespace}/dljobs"
        wait_for(
            "all to be tried",
            lambda: all(one.get("status", {}).get("phase") for one in cluster.api("GET", path)["items"]),
            timeout=900,
            interval=2,
        )
        for _ in range(3):
            found = rate(cluster, chosen.seconds / 3)
            print(f"{chosen.jobs} refused DLJobs: {sum(found.values()):.1f} requests/s", found)
        start = time.monotonic()
        bystander.patch("bystander", {"spec": {"suspend": True}})
        bystander.wait_phase("bystander", "Suspended")
        print(f"a bystander's suspension took {time.monotonic() - start:.1f} s")
        print("the controller runs:", cluster.running(CONTROLLER))


if __name__ == "__main__":
    main()
