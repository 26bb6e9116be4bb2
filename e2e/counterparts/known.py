"""The controllers that there are, each set up as its own project deploys it, but for ports and certificates."""

from collections.abc import Mapping
from typing import Any

from e2e.counterparts.controller import Controller, Place


def _manager(place: Place) -> dict[str, Any]:
    """What the configuration files of most of them have in common: controller-runtime's part."""
    return {
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{place.host}:{place.health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": place.host, "port": place.webhook_port},
        "leaderElection": {"leaderElect": False},
    }


def _with_folder(place: Place) -> dict[str, Any]:
    settings = _manager(place)
    settings["webhook"]["certDir"] = str(place.certificates)
    return settings


def _kueue(place: Place) -> Mapping[str, Any]:
    # With certificates of others it insists on some in /etc/kueue, where only root may write: so it makes its own.
    return {
        **_with_folder(place),
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "namespace": "kueue-system",
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": "kueue-webhook-service",
            "webhookSecretName": "kueue-webhook-server-cert",
        },
        "clientConnection": {"qps": 300, "burst": 500},
        # An aggregated API has no use here, and would need a network.
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {
            "frameworks": [
                "batch/job",
                "jobset.x-k8s.io/jobset",
                "kubeflow.org/mpijob",
                "kubeflow.org/pytorchjob",
                "ray.io/raycluster",
                "ray.io/rayjob",
                "trainer.kubeflow.org/trainjob",
            ]
        },
    }


def _jobset(place: Place) -> Mapping[str, Any]:
    return {
        **_with_folder(place),
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "internalCertManagement": {"enable": False},
    }


def _trainer(place: Place) -> Mapping[str, Any]:
    return {
        **_manager(place),
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "statusServer": {"port": place.spare_port},
        "certManagement": {"enable": False},
    }


def _lws(place: Place) -> Mapping[str, Any]:
    return {
        **_with_folder(place),
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "internalCertManagement": {"enable": False},
    }


KUEUE = Controller(
    name="kueue",
    manifests=("config/default",),
    namespace="kueue-system",
    account="kueue-controller-manager",
    service="kueue-webhook-service",
    own_certificate="kueue-webhook-server-cert",
    configuration=_kueue,
)
JOBSET = Controller(
    name="jobset",
    manifests=("config/default",),
    namespace="jobset-system",
    account="jobset-controller-manager",
    service="jobset-webhook-service",
    configuration=_jobset,
)
TRAINER = Controller(
    name="trainer",
    # Its overlays fetch JobSet from the internet.
    manifests=(
        "manifests/base/crds",
        "manifests/base/rbac",
        "manifests/base/webhook",
        "manifests/base/runtimes",
    ),
    namespace="kubeflow-system",
    account="kubeflow-trainer-controller-manager",
    service="kubeflow-trainer-controller-manager",
    default_certificate_folder=True,
    configuration=_trainer,
)
LWS = Controller(
    name="lws",
    manifests=("config/default",),
    namespace="lws-system",
    account="lws-controller-manager",
    service="lws-webhook-service",
    configuration=_lws,
)
MPI_OPERATOR = Controller(
    name="mpi-operator",
    manifests=("manifests/overlays/standalone",),
    namespace="mpi-operator",
    account="mpi-operator",
    arguments=lambda _: ("--lock-namespace=mpi-operator", "--kube-api-qps=100", "--kube-api-burst=200"),
    readiness=None,
)
