"""The review of a submitted job against a policy; pure: webhook, controller and `stoker lint` ask the same function."""

from stoker.admission.review import introduced, outline, review, review_submission, review_submissions

__all__ = ["introduced", "outline", "review", "review_submission", "review_submissions"]
