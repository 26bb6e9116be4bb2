"""What the cluster's DLJobs add to a report: the change that each finding proposes, with the job's own numbers."""

import logging
from collections.abc import Sequence

from stoker.adapters.kubernetes.client import DLJOBS, ApiError, CredentialsError, Kubernetes
from stoker.report import JobNotes


async def read_notes(
    namespaces: Sequence[str], *, kubeconfig: str | None, context: str | None
) -> tuple[dict[str, JobNotes], str]:
    """By the job's uid; and why there are none, in words, where the cluster can't be asked."""
    notes: dict[str, JobNotes] = {}
    # That there is no kubeconfig is nothing to be warned of here.
    logging.getLogger("kubernetes").setLevel(logging.ERROR)
    try:
        async with await Kubernetes.connect(kubeconfig=kubeconfig, context=context) as api:
            for namespace in namespaces or (None,):
                jobs, _ = await api.list(DLJOBS, namespace)
                for job in jobs:
                    findings = job.get("status", {}).get("findings", ())
                    # closed findings come last, and leave a change that is proposed now as it is
                    fixes = {one["rule"]: one["fix"] for one in reversed(findings) if one.get("fix")}
                    notes[job["metadata"]["uid"]] = JobNotes(fixes=fixes)
    except (CredentialsError, ApiError) as error:
        return {}, str(getattr(error, "answer", "") or error)
    return notes, ""


__all__ = ["read_notes"]
