"""The review of a submitted job against a policy; pure: the webhook, the controller and `stoker lint` all ask this function."""

from stoker.admission.review import introduced, review

__all__ = ["introduced", "review"]
