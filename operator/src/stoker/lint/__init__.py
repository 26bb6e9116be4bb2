"""What a manifest says before it runs: the kinds of workload, the launch, the rules and the review, and the fixes."""
