"""How much processor time one review takes, without a server: the least and the median of many.

    python -m benchmarks.review [--against FOLDER ...] [--turns 3]

A FOLDER has another version of the package `stoker`, such as `operator/src` of another checkout, or what
`pip install --target FOLDER build/wheel/*.whl` has installed. Versions take turns, each in a process of its own, so
that other work on the machine hits all of them. Every review has another script (see benchmarks/admission.py).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from stoker.admission.admission_review import AdmissionRequest
from stoker.admission.judgement import judge, warm_up
from stoker.policy.effective import BUILT_IN
from tests.admission.malformed_reviews import OBJECT, review

HERE = Path(__file__).resolve().parent
SCRIPTS = {
    "small": "torchrun --nproc_per_node=8 train.py --batch-size 32 --seed @NUMBER@\n",
    "200 lines": (HERE / "long.sh").read_text(),
}
REVIEWS = {"small": 200, "200 lines": 25}


def measured() -> dict[str, list[float]]:
    """The processor time of each review in this process, in milliseconds, by script."""
    warm_up()
    times: dict[str, list[float]] = {}
    for name, script in SCRIPTS.items():
        for number in range(REVIEWS[name]):
            spec = {**OBJECT["spec"], "script": script.replace("@NUMBER@", str(number))}
            body = json.dumps(review(new={**OBJECT, "spec": spec})).encode()
            begin = time.thread_time()
            for _ in judge(AdmissionRequest.read(body), BUILT_IN, datetime.now(UTC)):
                pass
            times.setdefault(name, []).append((time.thread_time() - begin) * 1000)
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", action="append", default=[], metavar="FOLDER", help="other versions")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--once", action="store_true", help="measure in this process and print JSON")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(measured()))
        return
    root = HERE.parent
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.turns):
        for folder in (*options.against, str(root / "operator" / "src")):
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path(folder).resolve()), str(root)))}
            command = [sys.executable, "-m", "benchmarks.review", "--once"]
            done = subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True)
            for name, times in json.loads(done.stdout).items():
                found.setdefault((folder, name), []).extend(times)
    print(f"{platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}; milliseconds")
    for (folder, name), times in found.items():
        print(f"{name:12}least {min(times):6.2f}   median {statistics.median(times):6.2f}   {folder}")


if __name__ == "__main__":
    main()
