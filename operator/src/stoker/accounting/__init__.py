"""Where the GPU-hours went: sums over many jobs, by namespace, team, user, cause and stage."""
