"""What the controller and admission share in watching the cluster: cache, watches, work queue, effective policies."""
