"""What every pod of a job finds in its environment: the standard interface to its GPUs."""

MASTER_PORT = 29500
"""torch.distributed's own default (torch.distributed.run, `--master-port`)."""

RESERVED_PREFIXES = ("STOKER_", "PET_", "MASTER_")
"""Names that belong to the operator: a pod template may not set them."""
RESERVED_NAMES = ", ".join(f"{prefix}*" for prefix in RESERVED_PREFIXES)


def service_name(name: str) -> str:
    """The headless Service of a job of that name. Unlike a job's, a Service's name must not begin with a digit."""
    return f"dlj-{name}"


def master_address(nodes: int, name: str, namespace: str) -> str:
    """Where rank 0 listens: itself at one node, else the stable DNS name of the pod with index 0."""
    return "127.0.0.1" if nodes == 1 else f"{name}-0.{service_name(name)}.{namespace}.svc"


def injected(nodes: int, gpus_per_node: int, name: str, namespace: str) -> dict[str, str | None]:
    """The injected variables of a job; None stands for a value that differs from pod to pod (the rank).

    The `PET_*` names are torchrun's own (torch.distributed.argparse_util.env: the flag's name after `PET_`), so that a
    bare `torchrun train.py` starts one process for each GPU of each node. Without GPUs it starts one process,
    torchrun's default. `WORLD_SIZE`, `RANK` and `LOCAL_RANK` are never set: scripts mean different things by them, and
    launchers set them themselves.
    """
    rank = "0" if nodes == 1 else None
    address = master_address(nodes, name, namespace)
    return {
        "STOKER_NODES": str(nodes),
        "STOKER_GPUS_PER_NODE": str(gpus_per_node),
        "STOKER_NODE_RANK": rank,
        "MASTER_ADDR": address,
        "MASTER_PORT": str(MASTER_PORT),
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": str(max(gpus_per_node, 1)),
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(MASTER_PORT),
    }
