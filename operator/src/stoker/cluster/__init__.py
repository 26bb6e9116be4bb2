"""What a running process knows of the cluster: the cache, the watches that feed it, the work queue, the policies."""
