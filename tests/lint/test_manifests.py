"""Manifests keep their positions, and bad input is named with its line."""

import errno
import os
import re
from pathlib import Path

import pytest

from stoker.lint.files.manifests import File, InputError, Manifest, ManifestText, Position, Region, parse, read

JOB = """\
# a comment
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata:
  name: bert
spec:
  gpusPerNode: 8
  env:
  - name: A
    value: "1"
  - {name: B, value: "2"}
  podTemplate:
    spec:
      containers:
      - name: trainer
        env: []
  script: |  # the start
    set -e

    torchrun \\
      --nproc_per_node=4 train.py
"""


def only(text: str) -> Manifest:
    (manifest,) = parse(text, "job.yaml")
    return manifest


@pytest.mark.parametrize(
    "field_path,line,column",
    [
        ("spec", 6, 1),
        ("spec.gpusPerNode", 7, 3),
        ("spec.env[0].value", 10, 5),
        ("spec.env[1].value", 11, 15),
        ("spec.podTemplate.spec.containers[trainer].env", 16, 9),
        ("spec.image", 6, 1),
        ("", 2, 1),
    ],
)
def test_a_field_is_located_at_its_key_and_a_missing_one_at_what_lacks_it(
    field_path: str, line: int, column: int
) -> None:
    assert only(JOB).locate(field_path) == Position(line, column)


def test_lines_of_a_block_are_lines_of_the_file() -> None:
    manifest = only(JOB)
    assert manifest.locate_text("spec.script", 1, 1) == Position(18, 5)
    assert manifest.locate_text("spec.script", 4, 3) == Position(21, 7)


@pytest.mark.parametrize(
    "script,line,column,expected",
    [
        ("script: torchrun train.py", 1, 10, Position(1, 18)),
        ('script: "torchrun train.py"', 1, 1, Position(1, 10)),
        ('script: "set -e\\ntorchrun train.py"', 2, 1, Position(1, 18)),
        ("script: >\n  torchrun\n  train.py\n", 1, 1, None),
        ("script: |2\n    torchrun train.py\n", 1, 3, Position(2, 5)),
        ("script: |-\n  a\n  torchrun train.py", 2, 1, Position(3, 3)),
    ],
    ids=["plain", "quoted", "quoted-second-line", "folded", "indented", "stripped"],
)
def test_other_styles_are_followed_as_far_as_their_lines_stand_in_the_file(
    script: str, line: int, column: int, expected: Position | None
) -> None:
    assert only(script).locate_text("script", line, column) == expected


def test_documents_are_counted_and_empty_ones_left_out() -> None:
    manifests = parse("a: 1\n---\n---\nb: 2\n", "two.yaml")
    assert [(one.document, one.value) for one in manifests] == [(0, {"a": 1}), (1, {"b": 2})]


def test_the_items_of_a_list_are_manifests_of_their_own() -> None:
    text = "kind: List\nitems:\n- kind: DLJob\n  a: 1\n- kind: Pod\n"
    manifests = parse(text, "list.yaml")
    assert [one.kind for one in manifests] == ["DLJob", "Pod"]
    assert manifests[0].locate("a") == Position(4, 3)


def test_times_and_sixty_based_numbers_are_texts_as_for_kubectl() -> None:
    assert only("at: 2026-11-21\nfor: 1:30\ncount: 8\n").value == {"at": "2026-11-21", "for": "1:30", "count": 8}


@pytest.mark.parametrize(
    "text,message",
    [
        ("a: [1,\n", "bad.yaml:2:1: not valid YAML"),
        ("a: 1\n\tb: 2\n", "bad.yaml:2:1: not valid YAML"),
        ("a: {{ .Values.x }}: y\n", "bad.yaml:1"),
        ("a: 1\nb: 2\na: 3\n", 'bad.yaml:3: the key "a" is already set at line 1'),
        ("a: \x00\n", "bad.yaml:1: not valid YAML: the character U+0000 is not allowed"),
        ("a: &a [*b]\n", "bad.yaml:1:8: not valid YAML"),
        ("a: " + "[" * 500_000, "bad.yaml:1: nested more than 200 levels deep"),
        ("\n".join(" " * n + "a:" for n in range(500)), "bad.yaml:201: nested more than 200 levels deep"),
        ("kind: !!python/object:os.system x\n", "bad.yaml:1:7: not valid YAML"),
        ("a: !!int x\n", "bad.yaml: not valid YAML"),
    ],
    ids=["open", "tab", "template", "twice", "nul", "alias", "deep", "deep-block", "object", "number"],
)
def test_what_is_no_yaml_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "bad.yaml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_tags_of_others_are_no_kubernetes_objects() -> None:
    """A repository holds YAML of many tools."""
    (other, job) = parse("Resources: !Ref x\n---\nkind: DLJob\n", "a.yaml")
    assert (other.kind, job.kind) == ("", "DLJob")
    with pytest.raises(InputError, match="could not determine a constructor"):
        parse("kind: DLJob\nspec: !Ref x\n", "a.yaml")


def test_comments_are_told_from_texts() -> None:
    text = (
        "# MARK top\nkind: DLJob  # MARK beside\nplain: a#MARK b\nquoted: '# MARK q'  # MARK after\n"
        "script: |\n  # MARK script\n  x\nfolded: >\n  # MARK folded\nflow: [a, # MARK flow\n  b]\n"
    )
    places = [region.line for region, _ in only(text).comments(re.compile("MARK [a-z]+"))]
    assert places == [1, 2, 4, 10]


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(InputError, match="aliases expand to more than 1,000,000 nodes"):
        parse("\n".join(lines), "bomb.yaml")


def test_a_directory_gives_its_manifests_in_order_and_a_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("kind: B\n")
    (tmp_path / "a.yml").write_bytes(b"ok: 1\nkind: \xff\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "c.json").write_text('{"kind": "C"}')
    (tmp_path / "notes.txt").write_text("no manifest")
    found = list(read([str(tmp_path)]))
    assert isinstance(found[0], InputError)
    assert str(found[0]) == f"{tmp_path}/a.yml:2: not UTF-8: byte 0xff"
    assert [one.kind for file in found if isinstance(file, File) for one in file.manifests] == ["B", "C"]


def test_what_is_hidden_in_a_directory_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in (".git/a.yaml", ".b.yaml", "c.yaml"):
        (tmp_path / name).write_text("kind: C\n")
    (file,) = read([str(tmp_path)])
    assert isinstance(file, File)
    assert file.path == f"{tmp_path}/c.yaml"


def test_only_regular_files_of_a_directory_are_read(tmp_path: Path) -> None:
    """Reading a pipe would wait for ever; a link to nowhere is an error, for somebody meant something."""
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere")
    (broken,) = read([str(tmp_path)])
    assert str(broken) == f"{tmp_path}/link.yaml: No such file or directory"


def test_a_directory_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not passed over: there may be manifests in it."""

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    (refused,) = read([str(tmp_path)])
    assert str(refused) == f"{tmp_path}: Permission denied"


HELM = "kind: DLJob\nspec:\n  nodes: {{ .Values.nodes }}\n"


def test_a_helm_template_is_named_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(HELM)
    (error,) = read([str(tmp_path / "job.yaml")])
    assert str(error) == (
        f"{tmp_path}/job.yaml:3: looks like a Helm template: render it first (helm template CHART | stoker lint -)"
    )
    (skipped,) = read([str(tmp_path)])
    assert isinstance(skipped, ManifestText)
    assert (skipped.path, skipped.line) == (f"{tmp_path}/job.yaml", 3)
    assert skipped.reason == str(error).partition(": ")[2].replace("looks", "what looks", 1)


@pytest.mark.parametrize(
    "listed",
    ["patches: [{path: patch.yaml}]", "patchesStrategicMerge: [./patch.yaml]", "patchesJson6902: [{path: patch.yaml}]"],
)
def test_a_patch_of_kustomize_is_not_taken_for_a_manifest(listed: str, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(f"kind: Kustomization\n{listed}\n")
    (tmp_path / "patch.yaml").write_text("kind: DLJob\nspec: {nodes: 2}\n")
    (tmp_path / "job.yaml").write_text("kind: DLJob\n")
    job, kustomization, patch = read([str(tmp_path)])
    assert isinstance(job, File)
    assert isinstance(kustomization, File)
    assert isinstance(patch, ManifestText)
    assert patch.path == f"{tmp_path}/patch.yaml"
    (given,) = read([str(tmp_path / "patch.yaml")])
    assert isinstance(given, File), "who names it wants it judged"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_or_refused(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes("kind: DLJob\nname: é\n".encode(encoding))
    (error,) = read([str(tmp_path / "job.yaml")])
    assert isinstance(error, InputError)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "field_path,expected",
    [
        ("spec.gpusPerNode", Region(7, 3, 7, 17)),
        ("spec.env[1].value", Region(11, 15, 11, 25)),
        ("spec.script", Region(17, 3, 17, 9)),
        ("spec.image", Region(6, 1, 6, 5)),
        ("spec.env[0]", Region(9, 5, 9, 12)),
    ],
    ids=["value", "flow", "block", "missing", "item"],
)
def test_a_field_is_marked_as_far_as_its_line_goes(field_path: str, expected: Region) -> None:
    assert only(JOB).region(field_path) == expected


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (missing,) = read([str(tmp_path / "none.yaml")])
    assert str(missing) == f"{tmp_path}/none.yaml: No such file or directory"
    (tmp_path / "empty").mkdir()
    (empty,) = read([str(tmp_path / "empty")])
    assert "no manifest in this directory" in str(empty)


def test_a_template_that_is_yaml_is_read_as_it_would_be_applied(tmp_path: Path) -> None:
    """The API server would get the braces; the rule about images says what is wrong with them."""
    path = tmp_path / "job.yaml"
    path.write_text("kind: DLJob\nspec:\n  image: '{{ .Values.image }}'\n")
    (file,) = read([str(path)])
    assert isinstance(file, File)
    assert file.manifests[0].value["spec"]["image"] == "{{ .Values.image }}"


def test_a_merged_field_is_found_where_it_was_written() -> None:
    text = "base: &base {image: a, cpu: 1}\ntrain:\n  <<: [*base, {memory: 2}]\n  cpu: 8\n"
    (manifest,) = parse(text, "job.yaml")
    assert manifest.region("train.image") == Region(1, 14, 1, 22)
    assert manifest.region("train.memory") == Region(3, 16, 3, 25)
    assert manifest.region("train.cpu") == Region(4, 3, 4, 9)


def test_an_alias_of_what_it_stands_in_is_no_endless_search() -> None:
    (manifest,) = parse("&a [*a]\n", "job.yaml")
    assert manifest.locate("spec.image") == Position(1, 1)
    (mapping,) = parse("&a {<<: {b: 1}, c: *a}\n", "job.yaml")
    assert mapping.locate("c.c.b") == Position(1, 10)
