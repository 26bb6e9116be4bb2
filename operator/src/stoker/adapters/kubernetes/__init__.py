"""Adapters to the Kubernetes API server: the client, events, pod logs, and kopf's watch sessions."""
