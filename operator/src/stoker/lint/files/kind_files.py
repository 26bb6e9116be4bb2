"""`--kinds`: the kinds that a site adds, as `stoker lint` reads them from files."""

from collections.abc import Sequence

from stoker.lint.files.manifests import InputError, ManifestText, read
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.registry import KINDS
from stoker.lint.kinds.site_kinds import SiteKindsError, site_kinds


def load_kinds(paths: Sequence[str]) -> tuple[WorkloadKind, ...]:
    """All kinds: Stoker's own and those of some files. Raises InputError for what can't be read or used."""
    found: dict[tuple[str, str], WorkloadKind] = {}
    for file in read(paths):
        if isinstance(file, InputError):
            raise file
        for manifest in () if isinstance(file, ManifestText) else file.manifests:
            try:
                kinds = site_kinds(manifest.value)
            except SiteKindsError as error:
                raise InputError(manifest.path, str(error), line=manifest.line) from error
            for kind in kinds:
                if (kind.group, kind.name) in found:
                    raise InputError(manifest.path, f"a second {kind.name} of {kind.group}", line=manifest.line)
                found[kind.group, kind.name] = kind
    if not found and paths:
        raise InputError(", ".join(paths), "contains no kinds")
    return (*KINDS, *found.values())


__all__ = ["load_kinds"]
