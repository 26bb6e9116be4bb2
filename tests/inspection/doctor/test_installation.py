"""What Deployments say of an installation, whatever they are called."""

from datetime import timedelta
from typing import Any

from stoker.inspection.doctor.installation import Role, components


def deployment(name: str, *args: str, **pod: Any) -> dict[str, Any]:
    container = {"name": "main", "command": ["stoker"], "args": list(args), **pod.pop("container", {})}
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/version": "1.2.3"}},
        "spec": {
            "replicas": 2,
            "template": {"spec": {"serviceAccountName": f"{name}-sa", "containers": [container], **pod}},
        },
        "status": {"readyReplicas": 1},
    }


def test_a_part_is_known_by_what_it_runs() -> None:
    matchers = ("--prometheus-matcher=a=b", "--prometheus-matcher=c=d")
    malformed = {"metadata": None, "spec": {"template": {"spec": {"containers": ["nonsense"]}}}}
    known = deployment("ctl", "run", "controller", "--scrape-interval=15s", *matchers)
    found = components([known, deployment("other", "serve"), malformed])
    assert list(found) == [Role.CONTROLLER]
    controller = found[Role.CONTROLLER]
    assert (controller.name, controller.service_account, controller.version) == ("ctl", "ctl-sa", "1.2.3")
    assert (controller.replicas, controller.ready) == (2, 1)
    assert controller.options["prometheus-matcher"] == ("a=b", "c=d")
    assert controller.settings.scrape_interval == timedelta(seconds=15)
    assert controller.settings.minimum_warning_grace == timedelta(minutes=5)


def test_the_certificate_is_in_the_secret_of_the_folder() -> None:
    mounts = {"volumeMounts": [{"name": "tls", "mountPath": "/certificate"}, {"name": "tmp", "mountPath": "/tmp"}]}
    volumes = [{"name": "tls", "secret": {"secretName": "webhook-tls"}}, {"name": "tmp", "emptyDir": {}}]
    admission = deployment(
        "adm", "run", "admission", "--certificate-folder=/certificate", container=mounts, volumes=volumes
    )
    assert components([admission])[Role.ADMISSION].certificate_secret == "webhook-tls"
    assert components([deployment("adm", "run", "admission")])[Role.ADMISSION].certificate_secret is None
