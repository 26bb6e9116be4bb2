"""The composition root: `python -m stoker`, and the console scripts `stoker` and `kubectl-stoker`."""

import atexit
import gc
import os
import sys

from stoker.cli import EXIT_INTERRUPTED, stoker


def kubectl_plugin() -> None:
    """Run the command line as a plugin of kubectl, which finds it as `kubectl-stoker` on PATH: `kubectl stoker`."""
    main("kubectl stoker")


def main(name: str = "stoker") -> None:
    """Run the command line. `name` is what its user has typed, for help and usage."""
    # Pydantic would look for plugins of its own in the metadata of every installed package, which takes as long as
    # reading a manifest. Stoker uses none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        stoker(prog_name=name)
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            # The interpreter would wait for threads that wait for a server; who has interrupted waits for neither.
            # What is done at exit is done, though: the Kubernetes client keeps a kubeconfig's keys in files until then.
            atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
        # The interpreter would look through all objects for circles of references once more, though it ends.
        gc.freeze()
        raise


if __name__ == "__main__":
    main()
