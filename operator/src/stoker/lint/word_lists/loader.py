"""Reads the word lists beside this module: names of launchers, tools, packages and image families.

Each list is a TOML file with a JSON schema of the same name. A site adds names without code: in files of the same names
in a folder that the environment variable STOKER_WORD_LISTS names. Used by lint.launch (launchers, tools, packages) and
lint.kinds.image_reference; each list is read when it is first needed. docs/word-lists.md says how to add a tool.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from stoker.api.schema import Violation, explained
from stoker.api.structural import Schema, faults, unknown_fields

SITE_FOLDER = "STOKER_WORD_LISTS"
"""The environment variable that names a folder of further lists."""

NAMES = ("image_families", "launchers", "packages", "tools")

WordList = Mapping[str, Any]
"""What one file holds, as its schema describes it."""


class WordListError(ValueError):
    """A word list that can't be used; the message names the file, each field, its value, and what is allowed."""


@cache
def word_lists(name: str) -> tuple[WordList, ...]:
    """The lists of one name: Stoker's own, then the site's where there is one, whose entries win.

    Raises WordListError for a file that can't be read or that breaks its schema.
    """
    file = f"{name}.toml"
    # Stoker's own list is held against its schema by a test, so that no start of a command has to.
    own = tomllib.loads(files(__package__).joinpath(file).read_text("utf-8"))
    sites = (read_word_list(folder / file, schema(name)) for folder in _site_folders())
    return (own, *(one for one in sites if one is not None))


def check_site_lists() -> None:
    """Read all lists if the site has some, so that a fault in one shows at the start. Raises WordListError."""
    for folder in _site_folders():
        known = {f"{name}.toml" for name in NAMES}
        if not folder.is_dir():
            raise WordListError(f"{folder}: {SITE_FOLDER} must name a folder with some of {', '.join(sorted(known))}")
        if unknown := sorted(one.name for one in folder.glob("*.toml") if one.name not in known):
            raise WordListError(f"{folder / unknown[0]}: no such word list: must be one of {', '.join(sorted(known))}")
        for name in NAMES:
            word_lists(name)


@cache
def schema(name: str) -> Schema:
    """The JSON schema of a list."""
    found: Schema = json.loads(files(__package__).joinpath(f"{name}.schema.json").read_bytes())
    return found


def read_word_list(path: Traversable, expected: Schema) -> WordList | None:
    """A list, checked against its schema; None where there is no such file. Raises WordListError."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WordListError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if wrong := _violations(found, expected):
        raise WordListError("\n".join(f"{path}: {one}" for one in wrong))
    return found


def _violations(found: WordList, expected: Schema) -> list[Violation]:
    return [explained(fault) for fault in (*faults(expected, found), *unknown_fields(expected, found))]


def _site_folders() -> tuple[Path, ...]:
    folder = os.environ.get(SITE_FOLDER)
    return (Path(folder),) if folder else ()


__all__ = ["NAMES", "SITE_FOLDER", "WordListError", "check_site_lists", "read_word_list", "schema", "word_lists"]
