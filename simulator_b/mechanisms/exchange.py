"""Jobs whose GPUs wait for one another's data, over networks and through hosts."""

import numpy as np

from simulator_b.draft import Draft, Part
from simulator_b.mechanism import SPREAD_JOBS, mechanism
from simulator_b.track import Rates
from stoker.findings.vocabulary import Category

EXCHANGE = Category.DATA_EXCHANGE


@mechanism(EXCHANGE, shapes=SPREAD_JOBS)
def gradients_over_sockets(draft: Draft) -> None:
    """Data-parallel training with Gloo over TCP: gradients go through the host and around a ring, while GPUs rest."""
    draft.start(draft.between(0.3, 0.75))
    rate = draft.between(0.35, 0.8) * min(draft.host.nic, 3.1e9)
    compute = draft.scale(0.2, 1.2)
    wire = compute * draft.between(1.2, 2.4)
    size = rate * wire / draft.per_node / 2
    draft.loop(
        draft.scale(2_500, 13_000),
        [
            Part(seconds=compute, spread=0.04, gpu=draft.kernels("transformer", alone=True), moved={"rx": 2e7}),
            Part(seconds=wire, spread=0.12, drift=0.1, pod={"cpu": draft.between(1.0, 2.0) * draft.per_node},
                 moved={"tx": size, "rx": size, "net_tx": rate * wire, "net_rx": rate * wire}, blame=EXCHANGE),
        ],
    )  # fmt: skip
    draft.finish()


@mechanism(EXCHANGE, shapes=((2, 2), (3, 4), (4, 4)))
def parameter_server(draft: Draft) -> None:
    """Workers push gradients to a server on the first node and pull parameters: its network card is the bottleneck."""
    draft.start(draft.between(0.2, 0.6))
    compute = draft.scale(0.2, 0.9)
    workers = draft.nodes - 1
    share = 0.85 * draft.host.nic / workers
    push = compute * draft.between(0.7, 1.3)
    host = {"cpu": 2.0 * draft.per_node}

    def server(pod: int, rates: Rates) -> Rates:
        """What workers send, the server receives, and the other way round; the sums cost it further cores."""
        if pod > 0:
            return rates
        turned = {"net_rx": rates["net_tx"] * workers, "net_tx": rates["net_rx"] * workers}
        return {**rates, **turned, "cpu": rates["cpu"] + 4.0}

    draft.loop(
        draft.scale(2_500, 13_000),
        [
            Part(seconds=compute, spread=0.06, gpu=draft.kernels("recommender", alone=True)),
            Part(seconds=push, spread=0.1, pod=host, blame=EXCHANGE,
                 moved={"net_tx": share * push, "tx": share * push / draft.per_node}),
            Part(seconds=push, spread=0.1, pod=host, blame=EXCHANGE,
                 moved={"net_rx": share * push, "rx": share * push / draft.per_node}),
        ],
        each_pod=server,
    )  # fmt: skip


@mechanism(EXCHANGE, shapes=((1, 2), (1, 4), (1, 8)), cards=("T4", "A10", "L40S"))
def gradients_through_the_host(draft: Draft) -> None:
    """All-reduce in host memory by MPI on one node without NVLink: down, add on the CPU, up, after each step."""
    draft.start(draft.between(0.3, 0.7))
    compute = draft.scale(0.15, 0.8)
    rate = 0.75 * draft.card.pinned / max(1.0, draft.per_node / 2)
    wire = compute * draft.between(1.2, 2.4)
    size = 0.42 * wire * rate
    draft.loop(
        draft.scale(2_500, 13_000),
        [
            Part(seconds=compute, spread=0.04, gpu=draft.kernels("convnet", alone=True), moved={"rx": 2e7}),
            Part(seconds=0.42 * wire, pod={"cpu": draft.per_node}, moved={"tx": size}, blame=EXCHANGE),
            Part(seconds=0.16 * wire, pod={"cpu": 2.0 * draft.per_node}, blame=EXCHANGE),
            Part(seconds=0.42 * wire, pod={"cpu": draft.per_node}, moved={"rx": size}, blame=EXCHANGE),
        ],
    )


@mechanism(EXCHANGE, shapes=SPREAD_JOBS)
def layers_over_ethernet(draft: Draft) -> None:
    """The model's layers lie on several nodes, which hand activations and gradients on over TCP: one node computes at
    a time, and the others wait for its output.
    """
    draft.start(draft.between(0.4, 0.8))
    rate = 0.7 * min(draft.host.nic, 3.1e9)
    compute = draft.scale(0.15, 0.6)
    wire = compute * draft.between(0.8, 1.6)
    turns = int(draft.scale(2_500, 9_000) / (draft.nodes * (compute + wire)))
    lengths = np.stack(
        [draft.durations(compute, 0.05, turns * draft.nodes), draft.durations(wire, 0.15, turns * draft.nodes)], axis=1
    ).ravel()
    node = np.tile(np.repeat(np.arange(draft.nodes), 2), turns)
    computes = np.tile([1.0, 0.0], turns * draft.nodes)
    work = draft.kernels("transformer", alone=True)
    for pod in draft.pods:
        own = (node == pod) * computes
        sends = (node == pod) * (1 - computes)
        takes = ((node + 1) % draft.nodes == pod) * (1 - computes)
        staged = {"tx": sends * rate / draft.per_node, "rx": takes * rate / draft.per_node}
        draft.push(
            lengths,
            {name: value * own for name, value in work.items()} | staged,
            {"net_tx": sends * rate, "net_rx": takes * rate, "cpu": 0.5 + 1.5 * sends + 1.5 * takes},
            pods=[pod],
            blame=EXCHANGE,
        )
