"""The closed vocabularies of the API: one spelling for status, JSON, metrics, documentation and code."""

from enum import StrEnum


class Category(StrEnum):
    """Root cause of low GPU utilization.

    The first fifteen are Table 1 of "An Empirical Study on Low GPU Utilization of Deep Learning Jobs"
    (ICSE 2024); the last four are seen only in jobs that are still running, which the study left out.
    """

    INTERACTIVE_JOB = "InteractiveJob"
    GPU_OVERSUBSCRIPTION = "GPUOversubscription"
    UNRELEASED_JOB = "UnreleasedJob"
    NON_DL_JOB = "NonDLJob"
    IMPROPER_BATCH_SIZE = "ImproperBatchSize"
    INSUFFICIENT_GPU_MEMORY = "InsufficientGPUMemory"
    MODEL_CHECKPOINTING = "ModelCheckpointing"
    INEFFICIENT_HOST_GPU_TRANSFER = "InefficientHostGPUTransfer"
    DATA_PREPROCESSING = "DataPreprocessing"
    REMOTE_DATA_READ = "RemoteDataRead"
    EXTERNAL_DATA_USAGE = "ExternalDataUsage"
    INTERMEDIATE_RESULT_UPLOAD = "IntermediateResultUpload"
    DATA_EXCHANGE = "DataExchange"
    LONG_LIBRARY_INSTALLATION = "LongLibraryInstallation"
    API_MISUSE = "APIMisuse"
    STALLED = "Stalled"
    DUPLICATE_TRAINING = "DuplicateTraining"
    STRAGGLER = "Straggler"
    STARTUP_HOLD = "StartupHold"


class Severity(StrEnum):
    """How bad a finding is: Error: the job contradicts itself or must fail. Warning: it costs GPU time. Advice: a
    change may help.
    """

    ERROR = "Error"
    WARNING = "Warning"
    ADVICE = "Advice"


class Confidence(StrEnum):
    """How sure a finding is. Only a Certain one is denied by default; a Possible one never becomes an action."""

    CERTAIN = "Certain"
    LIKELY = "Likely"
    POSSIBLE = "Possible"


class Action(StrEnum):
    """What a policy does with a rule's findings at admission."""

    DENY = "Deny"
    WARN = "Warn"
    AUDIT = "Audit"
    """Recorded in status, not shown at admission."""
    OFF = "Off"
    """The rule is not run."""


class ReviewOutcome(StrEnum):
    """The answer to a submission."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"


class Source(StrEnum):
    """Where a finding's evidence was seen."""

    MANIFEST = "Manifest"
    SCRIPT = "Script"
    PROGRAM = "Program"
    METRICS = "Metrics"
    LOGS = "Logs"


class Maturity(StrEnum):
    """Whether a rule may act: a preview rule only reports, whatever the policy says."""

    STABLE = "stable"
    PREVIEW = "preview"


class JobType(StrEnum):
    """What a DLJob says it is. Absent means Training."""

    TRAINING = "Training"
    EVALUATION = "Evaluation"
    INTERACTIVE = "Interactive"
    SERVING = "Serving"


class Framework(StrEnum):
    """The framework a DLJob says it uses; inferred when absent."""

    PYTORCH = "PyTorch"
    TENSORFLOW = "TensorFlow"
    JAX = "JAX"
    OTHER = "Other"


class SuccessPolicy(StrEnum):
    """When a DLJob has succeeded: All pods, or the Leader (rank 0), whose success ends the others."""

    ALL = "All"
    LEADER = "Leader"


class Phase(StrEnum):
    """A DLJob's phase. Succeeded and Failed are final."""

    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    RECLAIMED = "Reclaimed"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


FINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED})
"""The phases that no job leaves."""


class Stage(StrEnum):
    """A stage of a job's life.

    Active stands where training and evaluation can't be told apart; it counts as the training stage in definitions.
    """

    INITIALIZATION = "Initialization"
    PREPROCESSING = "Preprocessing"
    ACTIVE = "Active"
    TRAINING = "Training"
    EVALUATION = "Evaluation"
    TAIL = "Tail"


class ConditionType(StrEnum):
    """The conditions of a DLJob."""

    PODS_READY = "PodsReady"
    SUSPENDED = "Suspended"
    LOW_UTILIZATION = "LowUtilization"
    IDLE = "Idle"
    RECLAIM_PENDING = "ReclaimPending"
    NAME_CONFLICT = "NameConflict"
    CREATED_WITH_WARNINGS = "CreatedWithWarnings"
    ANALYSED = "Analysed"
    COMPLETE = "Complete"
    FAILED = "Failed"


class PolicyConditionType(StrEnum):
    """The conditions of a UtilizationPolicy."""

    READY = "Ready"
    NEEDS_ATTENTION = "NeedsAttention"
    RECLAIM_STOPPED = "ReclaimStopped"


class UnknownReason(StrEnum):
    """Why nothing can be said about a job's GPUs; the reason of the conditions Idle and LowUtilization at Unknown."""

    NO_SAMPLES = "NoSamples"
    STALE = "Stale"
    PROMETHEUS_UNAVAILABLE = "PrometheusUnavailable"
    PARTIAL = "Partial"
    INTERNAL_ERROR = "InternalError"
    """A fault of Stoker's, brought about by this job's objects alone."""
    SCAN_FAILED = "ScanFailed"
    """The look at all metrics fails, by a fault of Stoker's."""
    UNCOUNTED_GPUS = "UncountedGPUs"
    """Its pods hold GPUs, or may, that no samples are asked for: of a resource claim, or of another resource."""


class ReclaimMode(StrEnum):
    """What a policy does with a reclaimable job. Observe only reports."""

    OBSERVE = "Observe"
    SUSPEND = "Suspend"
    DELETE = "Delete"


class ReclaimState(StrEnum):
    """Where a job stands on the way to being reclaimed."""

    ACTIVE = "Active"
    IDLE = "Idle"
    WARNED = "Warned"
    RECLAIMING = "Reclaiming"
    RECLAIMED = "Reclaimed"
    SNOOZED = "Snoozed"
    EXEMPT = "Exempt"
    UNKNOWN = "Unknown"


class ReclaimEvent(StrEnum):
    """An event of a job's reclaim history. The values are those of the Kubernetes event and the audit line about the
    same; a change of the policy stands in the history alone.
    """

    WARNED = "ReclaimWarning"
    CANCELLED = "ReclaimCancelled"
    RECLAIMED = "Reclaimed"
    RESUMED = "Resumed"
    SNOOZED = "Snoozed"
    SNOOZE_WITHDRAWN = "SnoozeWithdrawn"
    POLICY_CHANGED = "PolicyChanged"


class NotificationEvent(StrEnum):
    """What a notification is about."""

    WARNED = "Warned"
    RECLAIMED = "Reclaimed"
    DIGEST = "Digest"


class NotificationResult(StrEnum):
    """What became of a notification."""

    SENT = "Sent"
    """At least one address took it."""
    FAILED = "Failed"
    """No address took it for an hour."""
    DIGEST = "Digest"
    """It is part of the next digest, since the policy's notifications of this hour were used up."""
    NOBODY = "Nobody"
    """No address of the channel is for this job."""
