"""Reviews that fail or are wrong while the webhook's replicas are replaced, evicted and killed, on a real node.

    python -m benchmarks.availability [--seconds 120] [--rate 300] [--api-rate 20] [FAULT ...]

It needs what the provider `node` needs (Linux, root), and Go. The chart is installed as it is, with two replicas. Right
and wrong DLJobs are sent in turn (benchmarks/webhook/verdicts), to the webhook's Service from inside the node, and to
the API server as dry runs, both at the same time: eight clients each that keep their connections, and every tenth
request by a new one. First the most that each can answer is measured; the load on the webhook's Service is then --rate,
but at most a third of its own most, because what replaces a replica needs the same cores, and that on the API server
--api-rate, but at most half of its own most beside that load.
"""

import argparse
import math
import os
import platform
import re
from collections import Counter

from e2e.availability.faults import Faults
from e2e.availability.load import Answers, Load
from e2e.cluster.node import NodeCluster
from e2e.installed import InstalledOperator

ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+")
MEASURED = 10.0
"""Seconds in which the most that is answered is counted."""


class Bench:
    """The two loads, at the rates that this machine bears."""

    def __init__(self, load: Load, rate: float, api_rate: float) -> None:
        self._load = load
        alone = load.on_webhook(seconds=MEASURED).answers()
        self.rate = min(rate, alone.rate / 3)
        beside = load.on_webhook(seconds=MEASURED + 2, rate=self.rate)
        through = load.on_api_server(seconds=MEASURED).answers()
        beside.answers()
        self.api_rate = min(api_rate, through.rate / 2)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {platform.machine()}; at most "
              f"{alone.rate:.0f} reviews/s by the webhook, {through.rate:.0f} requests/s by the API server beside "
              f"{self.rate:.0f}\n", flush=True)  # fmt: skip

    def run(self, name: str, faults: Faults, seconds: float) -> None:
        """Both loads while it happens; prints a line each."""
        running = (
            self._load.on_webhook(seconds=seconds, rate=self.rate),
            self._load.on_api_server(seconds=seconds, rate=self.api_rate),
        )
        done = faults.repeat(faults.all[name], running)
        for where, one in zip(("the webhook", "the API server"), running, strict=True):
            print(line(name, done, where, one.answers()), flush=True)


def line(name: str, done: int, where: str, answers: Answers) -> str:
    """A line of the table, and the faults below it."""
    cells = (name, done, where, f"{answers.rate:.0f}", answers.requests, len(answers.wrong), len(answers.failed))
    kinds = Counter(ADDRESS.sub("", text)[-200:] for _, text in (*answers.wrong, *answers.failed))
    told = "".join(f"\n    {count} x {text}" for text, count in kinds.most_common(8))
    return f"| {' | '.join(map(str, cells))} | {answers.p50:.0f} ms | {answers.p99:.0f} ms |{told}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="such as 'replicas rolled'; by default all")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each fault")
    parser.add_argument("--rate", type=float, default=300.0, help="reviews per second by the webhook's Service")
    parser.add_argument("--api-rate", type=float, default=math.inf, help="requests per second by the API server")
    options = parser.parse_args()
    with NodeCluster("availability", report=print) as cluster:
        cluster.start_prometheus()
        operator = InstalledOperator(cluster)
        operator.start()
        load = Load(operator, cluster.create_namespace("load"))
        faults = Faults(operator=operator, load=load)
        if unknown := set(options.faults) - set(faults.all):
            parser.error(f"{unknown.pop()!r}: there are {', '.join(faults.all)}")
        bench = Bench(load, options.rate, options.api_rate)
        print("| what happens | times | asked | per second | requests | wrong | failed | p50 | p99 |")
        print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
        for name in options.faults or faults.all:
            bench.run(name, faults, options.seconds)
        if faults.gone:
            print(f"\nkilled replicas left the Service after {', '.join(f'{one:.1f}' for one in faults.gone)} s")


if __name__ == "__main__":
    main()
