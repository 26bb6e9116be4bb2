"""Stoker keeps the GPUs of a Kubernetes cluster fed."""

__version__ = "0.1.0"
