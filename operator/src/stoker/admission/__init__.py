"""The admission server: the webhook that answers AdmissionReviews of DLJobs, policies and sessions."""
