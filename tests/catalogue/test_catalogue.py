"""What every rule owes its readers, whoever wrote it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import stoker.diagnosis.rules
import stoker.lint.rules
from hack import generate
from stoker.catalogue import CatalogueError, admission_rules, all_rules, diagnosis_names, diagnosis_rules
from stoker.catalogue.pages import FAMILIES, next_id, page, pages
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Action, Category, Severity

SECTIONS = ["What it flags", "Why it costs GPU time", "When it stays silent", "Change", "References"]
RULES = all_rules()
MODULES = [
    path
    for package in (stoker.lint.rules, stoker.diagnosis.rules)
    for path in Path(package.__path__[0]).glob("*.py")
    if path.name != "__init__.py"
]


def named(rule: Rule[object]) -> str:
    return rule.name


def test_every_module_of_the_two_packages_is_one_rule() -> None:
    assert sorted(rule.name for rule in RULES) == sorted(path.stem.replace("_", "-") for path in MODULES)


def test_the_rules_over_series_are_known_by_name_without_being_loaded() -> None:
    assert diagnosis_names() == {rule.name for rule in diagnosis_rules()}


def test_ids_and_names_are_unique_across_both_packages() -> None:
    """A page has one address, and a policy names a rule by its name alone."""
    assert len({rule.id for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_rule_has_a_page_with_every_section_filled(rule: Rule[object]) -> None:
    headings = re.findall(r"^## (.+)$", rule.page, re.MULTILINE)
    assert headings == SECTIONS
    bodies = re.split(r"^## .+$", rule.page, flags=re.MULTILINE)
    assert all(body.strip() for body in bodies)


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_a_rule_names_its_fault_in_one_sentence_and_its_change(rule: Rule[object]) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.name)
    for text in (rule.summary, rule.fix):
        assert "\n" not in text
        assert text.endswith(".")


@pytest.mark.parametrize("rule", [rule for rule in admission_rules() if rule.action is Action.DENY], ids=named)
def test_what_denies_by_default_is_an_error(rule: Rule[object]) -> None:
    assert rule.severity is Severity.ERROR


def test_the_rules_of_both_stages_name_categories_of_the_one_vocabulary() -> None:
    assert {rule.category for rule in RULES} <= set(Category)


def test_pages_are_one_per_rule_and_an_index_that_links_them_all() -> None:
    files = pages()
    assert next(iter(files)) == "README.md"
    assert set(files) == {"README.md", *(f"{rule.name}.md" for rule in RULES)}
    assert all(f"({rule.name}.md)" in files["README.md"] for rule in RULES)


def test_the_index_shows_for_every_category_which_rules_check_it_at_which_stage() -> None:
    rows = {
        cells[1]: (cells[2], cells[3])
        for cells in (
            [cell.strip() for cell in line.split("|")]
            for line in pages()["README.md"].splitlines()
            if line.startswith("| ")
        )
        if cells[1] in set(Category)
    }
    assert set(rows) == {str(category) for category in Category}
    for stage, rules in enumerate((admission_rules(), diagnosis_rules())):
        for rule in rules:
            link = f"[{rule.name}]({rule.name}.md)"
            cell = rows[str(rule.category)][stage]
            assert (f"**{link}**" if rule.action is Action.DENY else link) in cell.split(", ")


def test_a_page_tells_the_rules_facts() -> None:
    rule = next(rule for rule in admission_rules() if rule.name == "launcher-too-few")
    text = page(rule)
    assert text.startswith("# launcher-too-few\n")
    assert "| Category | GPUOversubscription |" in text
    assert "| At admission | Deny |" in text


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of that of the admission rules."""
    monkeypatch.setattr(stoker.lint.rules, "__path__", [str(tmp_path)])
    loaded = set(sys.modules)
    admission_rules.cache_clear()
    yield tmp_path
    admission_rules.cache_clear()
    for module in set(sys.modules) - loaded:
        del sys.modules[module]


def copied(folder: Path, name: str, **changes: str) -> None:
    """A copy of a rule under another name, as somebody begins a new one."""
    (path,) = (path for path in MODULES if path.stem == "trailing_sleep")
    text = path.read_text().replace('name="trailing-sleep"', f'name="{name}"')
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / f"{name.replace('-', '_')}.py").write_text(text)


def test_a_module_without_a_rule_is_named(scratch: Path) -> None:
    (scratch / "no_rule.py").write_text('"""Nothing."""\n')
    with pytest.raises(CatalogueError, match=r"no_rule defines no RULE"):
        admission_rules()


def test_two_modules_with_one_id_are_both_named_in_one_line(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copied(scratch, "first-sleep")
    copied(scratch, "second-sleep")
    line = (
        "stoker.lint.rules.first_sleep and stoker.lint.rules.second_sleep have the same id 'A501'; "
        "docs/rules/README.md lists the free ones"
    )
    with pytest.raises(CatalogueError) as raised:
        admission_rules()
    assert str(raised.value) == line
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out == f"{line}\n"


def test_two_modules_with_one_name_are_both_named(scratch: Path) -> None:
    copied(scratch, "straggler", A501="A599")
    with pytest.raises(CatalogueError) as raised:
        all_rules()
    modules = "stoker.lint.rules.straggler and stoker.diagnosis.rules.straggler"
    assert str(raised.value) == f"{modules} have the same name 'straggler'"


def test_every_id_belongs_to_a_family_and_the_index_lists_it() -> None:
    index = pages()["README.md"]
    for rule in RULES:
        assert re.fullmatch(r"[AD]\d{3}", rule.id)
        assert rule.id[:2] in FAMILIES
        assert f"| {rule.id} | [{rule.name}]({rule.name}.md) |" in index


def test_the_index_says_which_id_is_free() -> None:
    assert next_id("A5", [replace(RULES[0], id="A501"), replace(RULES[0], id="A503"), *diagnosis_rules()]) == "A504"
    assert next_id("A9", RULES) == "A901"
    for family in FAMILIES:
        assert f"| {next_id(family, RULES)} |\n" in pages()["README.md"]


def test_the_rules_are_found_in_the_order_of_their_ids() -> None:
    for rules in (admission_rules(), diagnosis_rules()):
        assert [rule.id for rule in rules] == sorted(rule.id for rule in rules)


def test_the_admission_rules_load_without_numpy_and_the_network() -> None:
    """The webhook and `stoker lint` start without what diagnosis needs."""
    program = (
        "import sys; from stoker.catalogue import admission_rules; admission_rules();"
        "print(*sorted({'numpy', 'kopf', 'kubernetes', 'aiohttp', 'prometheus_api_client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_page_lists_what_a_policy_may_set() -> None:
    sleep = next(rule for rule in RULES if rule.name == "trailing-sleep")
    assert "## Parameters" not in page(replace(sleep, parameters=()))
    shown = page(
        replace(
            sleep,
            parameters=(
                Parameter(name="minimumSeconds", default=60, description="Shorter ones pass.", maximum=3600),
                Parameter(name="programs", default=("sleep",), description="What sleeps.", minimum=0),
                Parameter(name="share", default=0.5, description="Of the job."),
            ),
        )
    )
    assert "under `spec.rules.trailing-sleep.parameters`" in shown
    assert shown.endswith(
        "| minimumSeconds | 60 | a number from 0 to 3600 | Shorter ones pass. |\n"
        "| programs | `sleep` | a list of texts | What sleeps. |\n"
        "| share | 0.5 | a number from 0 | Of the job. |\n"
    )
