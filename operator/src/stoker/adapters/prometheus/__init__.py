"""Prometheus: the connection, the queries, and from samples to series in one unit per signal."""
