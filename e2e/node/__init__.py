"""A real node: containerd, runc, kubelet and kube-proxy as processes, in namespaces and control groups of their own.

`sandbox` holds the namespaces and groups, `gateway` connects them with this machine's loopback, `settings` has what the
programs are configured with, `images` assembles images without a registry, `machine` says whether this machine can run
all that. The provider `node` (e2e/cluster/node.py) puts them together.
"""
