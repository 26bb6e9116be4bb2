"""The report's page, in a real browser."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request

from stoker.report import hours, state
from stoker.report.formats import page as html
from stoker.report.formats.json import document
from tests.report.recording import usage_record
from tests.report.week import HOSTILE, HOSTILE_OWNER, NOW, RULE_FIXES, statement


@dataclass
class Visit:
    """The page as it stands in the browser, and what it did while it was loaded and used."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def complain(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"{message.type}: {message.text}")

    def request(self, request: Request) -> None:
        if not request.url.startswith("data:"):
            self.requests.append(request.url)

    def value(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html.render(statement(), NOW, rule_fixes=RULE_FIXES), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser: Browser, file: Path) -> Iterator[Visit]:
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    visit = Visit(tab)
    tab.on("console", visit.complain)
    tab.on("pageerror", lambda error: visit.complaints.append(str(error)))
    tab.on("request", visit.request)
    tab.goto(file.as_uri())
    yield visit
    tab.close()


def test_nothing_is_loaded_from_elsewhere_and_the_browser_has_nothing_to_complain_of(visit: Visit, file: Path) -> None:
    visit.page.mouse.wheel(0, 10_000)
    visit.page.locator("summary").click()
    assert visit.complaints == []
    assert visit.requests == [file.as_uri()]


def test_every_figure_on_the_page_is_the_one_of_the_json(visit: Visit) -> None:
    """All tables, the closed one included: 28 parts of the week, causes, jobs, four groupings, stages."""
    published = document(statement(), NOW)
    shown = visit.value(
        "[...document.querySelectorAll('data')]"
        ".map(one => [one.dataset.of, one.getAttribute('value'), one.textContent])"
    )
    assert len(shown) > 28 * 4 + 40
    for place, value, text in shown:
        assert float(value) == _at(published, place), place
        # what is shown is rounded from the exact figure: at a half the third decimal may tip it
        assert text in {hours(float(value) + tip) for tip in (-0.0005, 0, 0.0005)}


def _at(published: Any, place: str) -> float:
    for key in place.split("."):
        published = published[int(key)] if key.isdecimal() else published[key]
    return float(published)


def test_each_section_has_its_heading_and_each_picture_its_words_and_its_table(visit: Visit) -> None:
    headings = visit.page.locator("h1, h2").all_text_contents()
    assert headings == [
        "42 % of 8,160 GPU-hours were lost",
        "Summary",
        "GPUs over time",
        "Why GPU time was lost",
        "The jobs that lost most",
        "By team",
        "By user",
        "By namespace",
        "By GPU",
        "In which stage GPU time was lost",
        "What had to be assumed",
        "What these figures are, and are not",
    ]
    sections = visit.page.locator("section:has(figure)")
    assert sections.count() == 4
    for section in sections.all():
        picture = section.locator("[role=img]").first
        assert re.search(r"\d", picture.get_attribute("aria-label") or "")
        assert picture.locator("svg").bounding_box()["height"] > 80  # type: ignore[index]  # it is drawn
        assert section.locator("figcaption").inner_text()
        assert section.locator("table").count() == 1


def test_the_table_of_the_first_picture_opens_by_keyboard(visit: Visit) -> None:
    table = visit.page.locator("details table")
    assert not table.is_visible()
    visit.page.locator("summary").focus()
    visit.page.keyboard.press("Enter")
    assert table.is_visible()
    assert table.locator("tbody tr").count() == 28


def test_names_of_users_are_text_wherever_they_stand(visit: Visit) -> None:
    """Tables and pictures: a script that is a team's name neither runs nor is hidden."""
    assert visit.value("window.broken === undefined && document.scripts.length === 0 && document.images.length === 0")
    assert visit.page.locator("#by-team ~ div th", has_text=HOSTILE).is_visible()
    assert visit.page.locator("#by-owner ~ div th", has_text=HOSTILE_OWNER).is_visible()
    drawn = visit.page.locator("#by-team ~ figure svg text").all_text_contents()
    assert any(text.startswith("<script>window.broken") for text in drawn)
    assert any(text.startswith("$x^{2$ 日本") for text in drawn)


def test_ids_are_unique_so_that_labels_and_patterns_find_the_right_thing(visit: Visit) -> None:
    ids = visit.value("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    broken = visit.value(
        """[...document.querySelectorAll('svg *')].flatMap(one =>
             [...one.attributes].flatMap(({value}) => [...value.matchAll(/url\\(#([^)]+)\\)/g)].map(found => found[1])))
             .filter(id => !document.getElementById(id))"""
    )
    assert broken == []


CONTRAST = """
() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const light = colour => {
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const names = ['ink', 'muted', 'link', 'used', 'lost', 'unknown'];
  const style = getComputedStyle(document.documentElement);
  const paper = light(style.getPropertyValue('--paper'));
  return Object.fromEntries(names.map(name => {
    const [high, low] = [paper, light(style.getPropertyValue('--' + name))].sort((a, b) => b - a);
    return [name, (high + 0.05) / (low + 0.05)];
  }));
}
"""
"""Contrast with the paper, by WCAG 2.2."""


@pytest.mark.parametrize("scheme, paper", [("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 24, 27)")])
def test_text_and_bars_stand_out_in_the_light_and_in_the_dark(visit: Visit, scheme: Any, paper: str) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    assert visit.value("getComputedStyle(document.body).backgroundColor") == paper
    contrast = visit.value(CONTRAST)
    assert all(contrast[name] >= 4.5 for name in ("ink", "muted", "link")), contrast
    assert all(contrast[name] >= 3 for name in ("used", "lost", "unknown")), contrast


def test_the_pictures_change_their_colours_with_the_page(visit: Visit) -> None:
    colours = "[...document.querySelectorAll('svg path, svg text')].map(one => getComputedStyle(one).fill)"
    visit.page.emulate_media(color_scheme="light")
    light = set(visit.value(colours))
    visit.page.emulate_media(color_scheme="dark")
    dark = set(visit.value(colours))
    assert {"rgb(0, 114, 178)", "rgb(213, 94, 0)", "rgb(27, 27, 27)"} <= light
    assert {"rgb(74, 168, 224)", "rgb(242, 138, 60)", "rgb(236, 236, 234)"} <= dark
    assert "rgb(27, 27, 27)" not in dark


@pytest.mark.parametrize("width", [320, 390, 768, 1920])
def test_no_screen_scrolls_sideways(visit: Visit, width: int) -> None:
    """Wide tables scroll within themselves, and keep their words legible."""
    visit.page.set_viewport_size({"width": width, "height": 800})
    visit.page.locator("summary").click()
    assert visit.value("document.documentElement.scrollWidth") <= width
    assert visit.value("Math.max(...[...document.querySelectorAll('tbody tr')].map(row => row.offsetHeight))") < 420


def test_on_paper_nothing_is_cut_off(visit: Visit) -> None:
    visit.page.emulate_media(media="print")
    visit.page.set_viewport_size({"width": 688, "height": 1000})  # A4 within its margins, at 96 dots an inch
    wide = visit.value(
        "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)"
        ".map(one => one.getAttribute('aria-label'))"
    )
    assert wide == []
    assert visit.page.pdf(format="A4").startswith(b"%PDF")


def test_a_period_without_jobs_is_a_page_as_well(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "empty.html"
    path.write_text(html.render(state(usage_record([])), NOW, rule_fixes=RULE_FIXES), encoding="utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())
    assert tab.locator("h1").inner_text() == "No GPU was held by a job"
    assert tab.locator("figure").count() == 0
    tab.close()
