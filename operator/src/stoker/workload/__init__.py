"""A DLJob's Job and Service, and its phase and conditions from what became of them; pure."""

from stoker.workload.facts import ProgramFacts, job_facts, program_facts, submission_facts
from stoker.workload.manifest import job_manifest, service_manifest
from stoker.workload.observation import Observation, observe

__all__ = [
    "Observation",
    "ProgramFacts",
    "job_facts",
    "job_manifest",
    "observe",
    "program_facts",
    "service_manifest",
    "submission_facts",
]
