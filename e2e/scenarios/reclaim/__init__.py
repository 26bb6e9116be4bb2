"""Reclaim on a real control plane and a real Prometheus: what must never happen, and what must."""
