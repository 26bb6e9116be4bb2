"""The control loop: a keyed queue, reconcile (gather, decide, write once), the metrics scan and the elector."""
