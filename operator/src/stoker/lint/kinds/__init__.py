"""The kinds of workload that rules see: DLJobs, Pods, Jobs and groups of pods, each read into submissions."""
