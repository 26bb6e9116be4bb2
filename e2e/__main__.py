"""`python -m e2e`: the programs, a cluster to play with, the demo."""

import sys
import time

import click

from e2e.cluster import registry, shell
from e2e.cluster.provider import ClusterError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Scratch clusters for tests, the demo and a look around."""


def _say(line: str) -> None:
    click.echo(line, err=True)


@main.command()
@click.argument("names", nargs=-1)
def binaries(names: tuple[str, ...]) -> None:
    """Find, download or build the clusters' programs (NAMES, or all that the providers need that can run here)."""
    from e2e.cluster.binaries import COUNTERPARTS, LOCAL, NODE, resolve_all
    from e2e.node.machine import obstacle

    if not names and (reason := obstacle()):
        _say(f"without the programs of the provider `node`: {reason}")
    needed = (*LOCAL, *COUNTERPARTS, *(() if obstacle() else NODE))
    for name, path in resolve_all(names or needed, _say).items():
        click.echo(f"{name:24}{path}")


@main.command()
@click.option("--name", default="dev", show_default=True, help="What `down` and `env` find it by.")
@click.option("--nodes", default=4, show_default=True, help="Simulated nodes of eight GPUs.")
@click.option("--bare", is_flag=True, help="Without the operator.")
def up(name: str, nodes: int, bare: bool) -> None:
    """Start a cluster with telemetry and the operator, and leave it up."""
    from e2e.cluster.provider import create

    if registry.find(name) is not None:
        raise ClusterError(f"cluster {name} is up already: {_ends(name)}")
    start = time.monotonic()
    with create(name=name, report=_say) as cluster:
        cluster.add_nodes(nodes)
        cluster.start_prometheus()
        if not bare:
            from e2e.operator import Operator
            from e2e.telemetry.stack import SIMULATION

            cluster.apply(SIMULATION)
            Operator(cluster).start()
        cluster.detach()
    _say(f"cluster {name} is up after {time.monotonic() - start:.0f} s; make cluster-down ends it")
    _print_environment(name)


@main.command()
@click.option("--name", default=None, help="Only the cluster of this name (default: all that were left up).")
def down(name: str | None) -> None:
    """End clusters that were left up, with all their processes."""
    for one in [name] if name else registry.names():
        _say(f"cluster {one} is down" if registry.stop(one) else f"cluster {one} was not up")


@main.command()
@click.option("--name", default="dev", show_default=True)
def env(name: str) -> None:
    """Print the shell's `export` lines for a cluster that was left up."""
    _print_environment(name)


@main.command()
@click.option("--keep", is_flag=True, help="Leave the cluster up afterwards.")
@click.option("--node", type=click.Choice(["simulated", "real"]), default="simulated", show_default=True)
def demo(keep: bool, node: str) -> None:
    """Show the main job, from kubectl apply to a finding and a reclaimed GPU. With a real node Stoker runs on it."""
    from e2e.cluster.provider import create
    from e2e.demo.narrator import ExpectationError
    from e2e.demo.story import tell

    if keep and registry.find("demo") is not None:
        raise ClusterError(f"the demo's cluster is up already: {_ends('demo')}")
    with create({"real": "node"}.get(node), name="demo", report=_say) as cluster:
        try:
            tell(cluster)
        except ExpectationError as error:
            raise ClusterError(f"the demo shows something else than it claims: {error}") from error
        finally:
            if keep:  # above all after a failure
                cluster.detach()
                _print_environment("demo")


def _ends(name: str) -> str:
    return f"make cluster-down ends all that were left up, {sys.executable} -m e2e down --name {name} this one"


def _print_environment(name: str) -> None:
    entry = registry.find(name)
    if entry is None:
        raise ClusterError(f"cluster {name} is not up: make cluster starts one")
    for line in shell.exports(entry):
        click.echo(line)


if __name__ == "__main__":
    try:
        main()
    except ClusterError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
