"""The names by which Stoker's objects, labels and annotations are known in a cluster. They are used everywhere, by
commands that must start fast too: this module imports nothing.
"""

GROUP = "stoker.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

POLICY_KIND = "UtilizationPolicy"
ALL_RULES = "*"
"""Stands for every rule where a policy lists rules."""

OWNER_LABEL = f"{GROUP}/owner"
TEAM_LABEL = f"{GROUP}/team"
RESUME_ANNOTATION = f"{GROUP}/resume"
SNOOZE_ANNOTATION = f"{GROUP}/snooze-until"
SNOOZE_REASON_ANNOTATION = f"{GROUP}/snooze-reason"
MAX_SNOOZE_REASON = 256
"""Characters of the reason that are kept and shown; chosen because one line of a terminal or of a message has less."""
KUEUE = "kueue.x-k8s.io"
QUEUE_LABEL = f"{KUEUE}/queue-name"
"""Kueue's: the LocalQueue of the job's namespace in which it waits for its turn."""
JUPYTER_ANNOTATION = f"{GROUP}/jupyter"
"""Where in the trainer's pod Jupyter answers, as `8888` or `8888/base/url`."""
RELEASE_BRAKE_ANNOTATION = f"{GROUP}/release-brake"
"""On a UtilizationPolicy: any new value lets reclaim go on though so much turned idle at once."""
CHANNEL_ANNOTATION = f"{GROUP}/notification-channel"
"""On a Namespace: the key of the notification Secret with the channels of its jobs."""
