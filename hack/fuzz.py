"""Coverage-guided fuzzing of what reads users' input.

    make fuzz TARGET=shell|yaml|review [FUZZ_SECONDS=300] [ARGS="-runs=1000"]

Atheris steers random input to code that no earlier input has reached. The corpus begins with the tests' scripts,
manifests and reviews and is kept in build/fuzz/TARGET. An input that raises what it may not, or takes longer than
10 s, is written there as crash-* or timeout-*: `make fuzz TARGET=shell ARGS=build/fuzz/shell/crash-...` repeats it.
Give each one that is mended a name among the tests in tests/fuzz/found.py.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import atheris
from pydantic import ValidationError

from tests.admission import malformed_reviews
from tests.admission.malformed_reviews import OBJECT
from tests.rules.fixtures import cases

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

with atheris.instrument_imports(include=["stoker", "yaml"]):
    from stoker.admission.admission_review import AdmissionRequest, NotAReviewError
    from stoker.admission.judgement import judge
    from stoker.api.dljob import DLJob
    from stoker.catalogue import admission_rules
    from stoker.lint.files.manifests import InputError, parse
    from stoker.lint.review import review
    from stoker.policy.effective import BUILT_IN

    admission_rules()  # imports them

WORDS = """\
torchrun python deepspeed accelerate launch mpirun srun --nproc_per_node --num_gpus= --nnodes $N ${N:-8} $((N+1)) $( `
" ' \\ ; & && || | ( ) { } if then else elif fi for in do done while until case esac ;; [ ] [[ ]] (( )) <<E <<- <<< >
>> 2>&1 # eval bash -c exec env A=1 A+=(x) ${A[@]} $@ $1 shift set -e f() return break continue exit local export read
source trap EXIT sleep wait {1..3} {a,b} ! -z -eq == true false nohup timeout ${A%.*} ${#A} ${!A} $'\\x pip install wget
cp -r tail -f jupyter CUDA_VISIBLE_DEVICES= apiVersion: stoker.dev/v1alpha1 kind: DLJob spec: script: image: nodes: env:
command: args: podTemplate: &a *a !!str --- ... |- >- <<: "request" "object" "oldObject" "spec" "UPDATE" null \\ud800
"""


def shell(data: bytes) -> None:
    """A startup script, through the whole review."""
    if script := data.decode("utf-8", "replace"):
        _review(DLJob.model_validate({**OBJECT, "spec": {**OBJECT["spec"], "script": script}}))


def yaml(data: bytes) -> None:
    """A file of manifests, as `stoker lint` reads it."""
    try:
        manifests = parse(data.decode("utf-8-sig"), "fuzz.yaml")
    except (UnicodeDecodeError, InputError):
        return
    for manifest in manifests:
        manifest.locate("spec.env[0].value")
        manifest.locate_text("spec.script", 1, 1)
        try:
            job = DLJob.model_validate(manifest.value)
        except ValidationError:
            continue
        _review(job)


def admission_review(data: bytes) -> None:
    """The body of the API server's POST."""
    try:
        request = AdmissionRequest.read(data)
    except NotAReviewError:
        return
    if request.new_object is not None:
        *_, last = judge(request, BUILT_IN, NOW)
        answer = json.loads(last.write(request))
        assert answer["response"]["uid"] == request.uid


def _review(job: DLJob) -> None:
    verdict = review(job, BUILT_IN, now=NOW)
    for _, failure in verdict.failures:
        raise RuntimeError(failure)


TARGETS: dict[str, Callable[[bytes], None]] = {"shell": shell, "yaml": yaml, "review": admission_review}


def seeds(target: str) -> Iterator[bytes]:
    """What the corpus begins with."""
    scripts = sorted(ROOT.glob("tests/shell/scripts/*.sh"))
    match target:
        case "shell":
            yield from (path.read_bytes() for path in scripts)
        case "yaml":
            yield from (case.manifest.encode() for case in cases("admission"))
        case _:
            for path in scripts[::4]:
                job = {**OBJECT, "spec": {**OBJECT["spec"], "script": path.read_text()}}
                yield json.dumps(malformed_reviews.review(new=job)).encode()
                yield json.dumps(malformed_reviews.review("UPDATE", new=job, old=OBJECT)).encode()


def main() -> None:
    """Fuzz until the options say stop."""
    target, options = sys.argv[1], sys.argv[2:]
    folder = BUILD / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (folder / f"seed-{number}").write_bytes(seed)
    dictionary = BUILD / "words"
    escaped = (word.replace("\\", "\\\\").replace('"', '\\"') for word in WORDS.split())
    dictionary.write_text("".join(f'"{word}"\n' for word in escaped))
    corpus = [] if any(not option.startswith("-") for option in options) else [str(folder)]
    limits = [
        f"-dict={dictionary}",
        f"-artifact_prefix={folder}/",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-max_len=4096",
    ]
    atheris.Setup([sys.argv[0], *limits, *options, *corpus], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
