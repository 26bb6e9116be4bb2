"""A DLJob's Job and Service, and its phase and conditions from what became of them; pure."""

from stoker.workload.facts import (
    ProgramFacts,
    facts_of,
    job_facts,
    job_product,
    job_traits,
    pod_facts,
    product_of,
    program_facts,
    submission_facts,
    unread_program,
)
from stoker.workload.manifest import job_manifest, service_manifest
from stoker.workload.observation import JobObservation, observe
from stoker.workload.runs import remembered, run_to_status

__all__ = [
    "JobObservation",
    "ProgramFacts",
    "facts_of",
    "job_facts",
    "job_manifest",
    "job_product",
    "job_traits",
    "observe",
    "pod_facts",
    "product_of",
    "program_facts",
    "remembered",
    "run_to_status",
    "service_manifest",
    "submission_facts",
    "unread_program",
]
