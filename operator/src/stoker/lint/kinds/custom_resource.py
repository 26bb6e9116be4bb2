"""Where a manifest of one of Stoker's own kinds breaks its schema: the violations that the API server would refuse.

Used for DLJobs (lint.kinds.dljob) and for policies (lint.files.policies).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.api.bounds import out_of_bounds
from stoker.api.schema import ApiModel, Violation
from stoker.api.schema import violations as model_violations
from stoker.api.structural import FaultKind


def violations(model: type[ApiModel], document: Mapping[str, Any], others: Iterable[Violation] = ()) -> list[Violation]:
    """Where a manifest breaks the schema, unknown fields included; what the server alone writes is let pass.

    others: violations that the model does not know.
    """
    found = [
        one
        for one in model_violations(model, document)
        if not (one.kind is FaultKind.UNKNOWN_FIELD and one.field_path.startswith(("metadata.", "metadata[", "status")))
    ]
    if too_much := out_of_bounds(document):
        return too_much
    missing = [
        Violation(field_path=key, message="required", kind=FaultKind.REQUIRED)
        for key in ("apiVersion", "kind")
        if key not in document
    ]
    return [*missing, *others, *found]


__all__ = ["violations"]
