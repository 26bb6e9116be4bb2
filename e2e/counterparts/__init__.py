"""The controllers that Stoker works beside: Kueue, JobSet, Kubeflow's Trainer and others, the real programs.

Each runs beside a cluster of the local provider as the operator does: as a process under the cluster's supervisor, with
a ServiceAccount of its own, its webhooks reached through its Service. Programs and manifests come from one version of
one Go module (e2e/tools pins it) and are cached with the other programs. docs/counterparts.md says what they do.
"""
