"""Objects that a careless or hostile user, node or exporter may put into a cluster, for the adversarial tests."""
