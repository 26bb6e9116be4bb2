from pathlib import Path

import pytest

from tests.fuzz.real_shell import BASH, write_programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stubs for a script's programs."""
    if BASH is None:
        pytest.skip("no bash here")
    root = tmp_path_factory.mktemp("programs")
    write_programs(root)
    return root
