"""The outside world behind small interfaces: the Kubernetes API, Prometheus, events and the clock."""
