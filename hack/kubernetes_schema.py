"""Write operator/src/stoker/api/kubernetes_job.json: Kubernetes' own schema of a Job's spec, with the pod template.

    python hack/kubernetes_schema.py            from the cluster that kubectl is set to
    python hack/kubernetes_schema.py --check    change nothing, exit 1 where the file differs from the cluster's schema

Run it once for each minor version of Kubernetes, then `make generate`: fields that the file lacks are refused in a
DLJob's podTemplate. An end-to-end test runs the check against the control plane that the tests use.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "operator/src/stoker/api/kubernetes_job.json"
KEPT = ("type", "format", "enum", "required")
UNMANAGED = frozenset({"managedFields"})
"""What only the server writes into an object's metadata; its schema has no bounds."""


def document(get: Callable[[str], Mapping[str, Any]]) -> dict[str, Any]:
    """The file's content; `get` reads a path of the API server."""
    version = get("/version")
    schemas = get("/openapi/v3/apis/batch/v1")["components"]["schemas"]
    return {
        "kubernetes": f"{version['major']}.{version['minor'].rstrip('+')}",
        "metadata": inlined(schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"], schemas),
        "spec": inlined(schemas["io.k8s.api.batch.v1.JobSpec"], schemas),
    }


def inlined(node: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without references, descriptions and defaults. A value that may be a number or a text has no type but
    the format `quantity` or `int-or-string`.
    """
    reference = node.get("$ref") or next((one["$ref"] for one in node.get("allOf", ())), None)
    if reference is not None:
        name = reference.rsplit("/", 1)[-1]
        if name == "io.k8s.apimachinery.pkg.api.resource.Quantity":
            return {"format": "quantity"}
        return inlined(schemas[name], schemas)
    if node.get("format") == "int-or-string":
        return {"format": "int-or-string"}
    schema: dict[str, Any] = {key: node[key] for key in KEPT if key in node}
    if "properties" in node:
        schema["properties"] = {
            name: inlined(child, schemas) for name, child in node["properties"].items() if name not in UNMANAGED
        }
    for key in ("items", "additionalProperties"):
        if key in node:
            schema[key] = inlined(node[key], schemas)
    if schema.get("type") not in {"object", "array", "string", "integer", "boolean"}:
        msg = f"a schema of a type that is not expected here: {dict(node)}"
        raise ValueError(msg)
    return schema


def text(content: Mapping[str, Any]) -> str:
    """The file's text."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def _kubectl(path: str) -> Mapping[str, Any]:
    answer: Mapping[str, Any] = json.loads(subprocess.check_output(["kubectl", "get", "--raw", path]))
    return answer


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 where the file differs")
    check = parser.parse_args().check
    expected = text(document(_kubectl))
    if TARGET.is_file() and TARGET.read_text() == expected:
        return 0
    print(f"{'stale' if check else 'wrote'}: {TARGET}")
    if not check:
        TARGET.write_text(expected)
    return int(check)


if __name__ == "__main__":
    sys.exit(main())
