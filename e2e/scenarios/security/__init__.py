"""What a tenant can't do by a DLJob, on a real API server: docs/security.md has the list."""
