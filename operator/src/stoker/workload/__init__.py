"""A DLJob's Job and Service, and its phase and conditions from what became of them; pure."""

from stoker.workload.manifest import job_manifest, service_manifest
from stoker.workload.observation import Observation, observe

__all__ = ["Observation", "job_manifest", "observe", "service_manifest"]
