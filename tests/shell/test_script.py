"""The shell interpreter, construct by construct."""

import pytest

from stoker.shell.model import ShellScript
from stoker.shell.script import expand_kubernetes, read_argv, read_script


def commands(source: str, **keywords: object) -> list[str]:
    """The commands of a script, `?` for what is unknown."""
    script = read_script(source, **keywords)  # type: ignore[arg-type]  # each test passes what fits
    return [" ".join(str(word) for word in invocation.argv) for invocation in script.invocations]


def circumstances(source: str) -> list[tuple[str, str]]:
    """The commands with how they are reached."""
    names = ("background", "after_failure", "in_loop", "loop_endless", "piped", "captured", "in_trap")
    return [
        (
            " ".join(str(word) for word in invocation.argv),
            " ".join(
                [name for name in names if getattr(invocation, name)] + (["maybe"] if invocation.branches else [])
            ),
        )
        for invocation in read_script(source).invocations
    ]


@pytest.mark.parametrize(
    "source, expected",
    [
        # words and quotes
        ("a b  c", ["a b c"]),
        ("a 'b c' \"d e\" f\\ g", ["a b c d e f g"]),
        ("a $'x\\ty' b\"c\"'d'", ["a x\ty bcd"]),
        ("a \\\n  b \\\n  c # d", ["a b c"]),
        ("x a#b # c", ["x a#b"]),
        ("# a\n#SBATCH b\n  # c", []),
        ("a {1..3} x{b,c}y '{d,e}'", ["a 1 2 3 xby xcy {d,e}"]),
        ("a >b 2>&1 <c; d &>e", ["a", "d"]),
        # variables
        ("x=1; a $x ${x} \"$x\" '$x'", ["a 1 1 1 $x"]),
        ("x='1 2'; a $x; a \"$x\"", ["a 1 2", "a 1 2"]),
        ("a ${x:-1} ${x-2} ${x:+3}", ["a 1 2"]),
        ("a ${x:=4}; b $x", ["a 4", "b 4"]),
        ("x=5; a ${x:-1} ${x:+3}", ["a 5 3"]),
        ("x=a.tar.gz; b ${x%.*} ${x%%.*} ${x#*.} ${x##*.} ${x/a/o} ${#x} ${x:2:3} ${x^^}",
         ["b a.tar a tar.gz gz o.tar.gz 8 tar A.TAR.GZ"]),
        ("x=1; x+=2; a $x", ["a 12"]),
        ("x=y; y=3; a ${!x}", ["a 3"]),
        ("x=1; unset x; a $x ${x:-2}", ["a 2"]),
        ("x=1 y=2\na $x $y", ["a 1 2"]),
        ("x=1 a $x", ["a ?"]),
        ("a $unset b", ["a ? b"]),
        ("export A=1; bash -c 'a $A'; B=2; bash -c 'a ${B:-none}'", ["a 1", "a none"]),
        ("readonly x=1; typeset z=3; a $x$z", ["a 13"]),
        ("a $HOME ${HOSTNAME:-x}", ["a ? ?"]),
        # arithmetic
        ("n=3; a $((n * 2 + 1)) $(( $n ** 2 )) $((7 / 2)) $((-7 % 3)) $((n > 2))",
         ["a 7 9 3 -1 1"]),
        ("((n = 2)); let m=n+1; ((m++)); a $n $m", ["a 2 4"]),
        ("a $((1 / 0)) $((x y))", ["a ? ?"]),
        ("a ${p:-$((20000 + 9501))}", ["a 29501"]),
        # arrays
        ("x=(a 'b c'); x+=(d); e \"${x[@]}\" ${#x[@]} ${x[1]} ${x[@]:1:1}", ["e a b c d 3 b c b c"]),
        ("x=(a b); e \"${x[*]}\" \"${!x[@]}\"", ["e a b 0 1"]),
        ("x[0]=a; x[1]=b; e ${x[@]}", ["e a b"]),
        ("x=(); e \"${x[@]}\" f", ["e f"]),
        ("x=(\n  --a 1 # one\n  # --b 2\n  --c\n)\ne ${x[@]}", ["e --a 1 --c"]),
        ("x=($(ls)); e ${x[@]}", ["ls", "e ?"]),
        # commands in strings
        ("c='a b'; $c d", ["a b d"]),
        ("c=(a 'b c'); \"${c[@]}\" d", ["a b c d"]),
        ("c='a \"b c\"'; eval $c", ["a b c"]),
        ("c='a > x 2>&1 & b'; eval \"$c\"", ["a", "b"]),
        ("bash -c 'a; b'", ["a", "b"]),
        ("sh -xec \"a $0\"; /bin/bash -l -c 'b'", ["a ?", "b"]),
        ("bash -c 'a $0 $1 $#' x y z", ["a ? y 2"]),
        ("x=1; bash -c \"a $x '\\$x'\"", ["a 1 $x"]),
        ("bash <<'E'\na $1\nb\nE\nc", ["a", "b", "c"]),
        ("x=1\nbash <<E\na $x $((1+1))\nE", ["a 1 2"]),
        ("echo 'a b' | bash", ["echo a b", "a b"]),
        ("cat <<E | sh -s\na\nE", ["cat", "a"]),
        ("su - user -c 'a; b'", ["a", "b"]),
        ("cat > f.sh <<'E'\na $1\nE\nchmod +x f.sh\n./f.sh x; bash f.sh y; . ./f.sh z",
         ["cat", "chmod +x f.sh", "a x", "a y", "a z"]),
        ("cat > x.py <<'E'\nimport os\nE\npython x.py", ["cat", "python x.py"]),
        ("cat <<E\na\nE\ncat <<-'E' > f\n\tb\n\tE\nc", ["cat", "cat", "c"]),
        # wrappers
        ("nohup nice -n 5 timeout -k 5 1h setsid stdbuf -oL a -b", ["a -b"]),
        ("env -u X A=1 B=2 a; sudo -E -u me C=3 b; time -p c; command d", ["a", "b", "c", "d"]),
        ("exec a b; c", ["a b"]),
        ("exec > log 2>&1; a", ["a"]),
        ("exec > >(tee log) 2>&1; a", ["tee log", "a"]),
        ("conda run -n x --no-capture-output a; uv run --with y a; poetry run a", ["a", "a", "a"]),
        ("command -v a; nohup; timeout", ["command -v a", "nohup", "timeout"]),
        ("time { a; b; }; ! { c; }; time (d; e) 2>&1 | f", ["a", "b", "c", "d", "e", "f"]),
        # functions
        ("f() { a $1 \"$@\" $#; }\nf x 'y z'", ["a x x y z 2"]),
        ("function f { local v=1; v=2; a $v; }; v=0; f; b $v", ["a 2", "b 0"]),
        ("f() { v=1; }; f; a $v", ["a 1"]),
        ("f() { return; a; }; f; b", ["b"]),
        ("f() { if [ $# -eq 0 ]; then a; return; fi; b; }; f; f x", ["a", "b"]),
        ("unused() { a; }", []),
        ("f() ( a )\nf", ["a"]),
        # branches
        ("if true; then a; else b; fi", ["a"]),
        ("if false; then a; elif [ x = x ]; then b; else c; fi", ["b"]),
        ("x=2; if [ $x -gt 1 ] && [[ $x == 2 ]]; then a; fi; [ -n \"$x\" ] || b", ["a"]),
        ("if [ -z \"$x\" ]; then x=1; fi; a $x", ["a 1"]),
        ("if ((2 > 1)); then a; fi; ((0)) && b", ["a"]),
        ("x=abc; if [[ $x == a* && ! $x =~ z ]]; then a; else b; fi", ["a"]),
        ("case x.y in *.z) a;; *.y|q) b;; *) c;; esac", ["b"]),
        ("case $# in 0) a;; *) b;; esac", ["a"]),
        ("case a in a) b;& c) d;; esac", ["b", "d"]),
        ("false && a; true || b; true && c; false || d", ["c", "d"]),
        ("set -e\nfalse\na", []),
        ("a; exit 0; b", ["a"]),
        ("a; exit", ["a"]),
        ("(exit 1); a", ["a"]),
        ("while false; do a; done; b", ["b"]),
        # loops
        ("for i in 1 2; do a $i; done", ["a 1", "a 2"]),
        ("for i in $(seq 0 2); do a $i; done", ["a 0", "a 1", "a 2"]),
        ("for i; do a $i; done; for j in \"$@\"; do b; done", []),
        ("for ((i = 0; i < 2; i++)); do a $i; done; b $i", ["a 0", "a 1", "b 2"]),
        ("for i in 1 2 3; do [ $i = 2 ] && continue; [ $i = 3 ] && break; a $i; done; b", ["a 1", "b"]),
        ("i=0; while [ $i -lt 2 ]; do a $i; i=$((i+1)); done", ["a 0", "a 1"]),
        ("for i in 1 2; do for j in 3 4; do a $i$j; break 2; done; done", ["a 13"]),
        ("while true; do a; done; b", ["a"]),
        ("while true; do a; break; done; b", ["a", "b"]),
        ("while [ $# -gt 0 ]; do a $1; shift; done; b", ["b"]),
        ("while getopts x o; do a; done; b", ["b"]),
        # known output
        ("a $(echo 1,2 | tr , '\\n' | wc -l) `basename /x/y.py .py` $(dirname /x/y)", ["a 2 y /x"]),
        ("a $(nproc) $(date +%s)", ["nproc", "date +%s", "a ? ?"]),
        ("IFS=, read -ra x <<< '3,4'; a ${#x[@]} ${x[1]}", ["a 2 4"]),
        ("read x; a $x", ["a ?"]),
        ("f() { echo 7; }; a $(f)", ["echo 7", "a 7"]),
        ("a $(wc -w <<< 'x y') $(awk -F, '{print NF}' <<< 1,2,3) $(echo a,b | awk 'BEGIN{FS=\",\"} {print NF}')",
         ["a 2 3 2"]),
        ("a $(printf '%02d-%s\\n' 7 x) $(expr 2 '*' 3) $(echo x-1 | cut -d- -f2)", ["a 07-x 6 1"]),
        ("a $(expr 010 + 1)", ["expr 010 + 1", "a ?"]),
        ("a $(echo -e '1\\n2' | wc -l) $(echo '1\\n2' | wc -l)", ["echo 1\\n2", "wc -l", "a 2 ?"]),
        ("a $(printf 'x,y' | tr , '\\n' | wc -l) $(echo x,y | tr , '\\n' | wc -l) ", ["a 1 2"]),
        ("printf '%s\\n' a b a > f; a $(wc -l < f) $(wc -l f | cut -d' ' -f1)",
         ["printf %s\\n a b a", "a 3 3"]),
        ("a $(echo x >&2) $(echo y > f)", ["echo x", "echo y", "a ? ?"]),
        ("a $(cat f | wc -l) $(hostname -s)", ["cat f", "wc -l", "a ? ?"]),
        # reading
        ("read -r a b <<< '1 2 3'; x $a \"$b\"", ["x 1 2 3"]),
        ("read -r -d '' a <<'E' || true\n1\n2\nE\nx $a", ["x 1 2"]),
        ("while read -r a b; do x $b $a; done <<'E'\n1 2\n3 4\nE\ny", ["x 2 1", "x 4 3", "y"]),
        ("seq 2 | while read i; do x $i; done", ["seq 2", "x 1", "x 2"]),
        ("n=0; while read i; do n=$((n+1)); done < <(seq 3); x $n", ["x 3"]),
        ("n=0; seq 3 | while read i; do n=$((n+1)); done; x $n", ["seq 3", "x 0"]),
        ("while read i; do x $i; done < unseen", ["x ?"]),
        ("select x in a b; do c; done; d", ["c", "d"]),
        # options of the script itself
        ("N=8; while getopts n: o; do N=$OPTARG; done; shift $((OPTIND - 1)); a $N ${1:-none}", ["a 8 none"]),
        ("N=8; while [[ $# -gt 0 ]]; do case $1 in --n) N=$2; shift 2;; *) shift;; esac; done; a $N", ["a 8"]),
        ("N=8; for x in \"$@\"; do case $x in --n=*) N=${x#*=};; esac; done; a $N", ["a 8"]),
        ("f() { a \"${@:2}\" ${@: -1} $#; }; f 1 2 3", ["a 2 3 3 3"]),
        # attributes and arrays
        ("readonly n=8\nn=4\na $n", ["a 8"]),
        ("n=8; readonly n\nn=4\na $n", ["a 8"]),
        ("f() { local -r n=8; a $n; }; f; n=4; a $n", ["a 8", "a 4"]),
        ("x=(a b c); unset 'x[1]'; a ${#x[@]}; y=(a b); unset y[0]; a ${y[0]}; z=1; unset $u; a $z",
         ["a ?", "a ?", "a ?"]),
        ("x=(a *.txt); a ${#x[@]} ${x[0]}; for i in \"${x[@]}\"; do b $i; done", ["a ? ?", "b ?"]),
        ("x=(--n 4 $u); a ${x[@]} b; set -- *.py; a $#", ["a --n 4 ? b", "a ?"]),
        ("x=(a bb); a ${x[@]: -1}", ["a bb"]),
        ("a {a..c} {3..1}", ["a a b c 3 2 1"]),
        ("[[ gpu8x =~ ^gpu([0-9]+)(x?)$ ]] && a ${BASH_REMATCH[1]} ${BASH_REMATCH[2]}", ["a 8 x"]),
        ("[[ 12 =~ ^[[:digit:]]+$ ]] && a; [[ v1.2 =~ ^v1\\.3 ]] || b", ["a", "b"]),
        ("re='^x|y$'; [[ ay =~ $re ]] && a ${BASH_REMATCH[0]}", ["a ?"]),
        ("[[ aaaaaaaaaaaaaaaaaaaaaaaa =~ (a+)+b ]] && a", ["a"]),
        # one command for each item
        ("seq 2 | xargs -I{} a --i {}; ls | xargs -n 1 -P 4 b; echo x | xargs",
         ["seq 2", "a --i ?", "ls", "b ?", "echo x", "xargs"]),
        ("parallel -j 2 'X={} a --i {1} {.}' ::: 1 2; parallel b ::: 3; parallel < f",
         ["a --i ? ?", "b ?", "parallel"]),
        # beside and around
        ("tmux new-session -d -s x 'a b; c'; tmux attach", ["a b", "c", "tmux attach"]),
        ("script -qec 'a b' /dev/null; runuser me -c 'd'", ["a b", "d"]),
        ("hash a || b", ["hash a", "b"]),
        # files that nobody can read
        ("x=1; source env.sh; a $x ${y:-2}", ["source env.sh", "a ? ?"]),
        ("x=1; source venv/bin/activate; a $x", ["source venv/bin/activate", "a 1"]),
        ("x=1; eval \"$(cmd)\"; a $x", ["cmd", "eval ?", "a ?"]),
    ],
)  # fmt: skip
def test_constants_are_followed_and_the_rest_is_unknown(source: str, expected: list[str]) -> None:
    assert commands(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "n=1; declare -i n=4+4; a $n",
        "a $((1 << 3))",
        "a $((2 > 1 ? 4 : 5))",
        "a $((010)) ",
        "declare -A m=([x]=1); m[x]=2; a ${m[x]}",
        "declare -A m; m=(x 1); a ${m[x]}",
        "x=(a b); a ${x[@]^^}",
        "x=(a b); x[7]=c; a ${x[1]}",
        "mapfile -t x < <(seq 2); a ${x[1]}",
        "x=1; printf -v x '%02d' 7; a $x",
        "set -- -n 4; while getopts n: o; do x=$OPTARG; done; a $x",
        "a $(seq 3 | sort -r)",
        "a $(echo 1 2 | sed s/1/2/)",
        "cat > f <<-E\n\ta x\nE\nx=$(cat f); a $x",
    ],
)
def test_what_is_not_followed_is_unknown(source: str) -> None:
    assert next(each for each in read_script(source).invocations if each.name == "a").argv[1].text is None


@pytest.mark.parametrize("source", ["x=1; a; declare -n r=x; r=2; b $x", "a; coproc N { b; }\nc", "a; coproc b; c"])
def test_a_script_is_not_followed_beyond_what_may_change_anything(source: str) -> None:
    script = read_script(source)
    assert [each.name for each in script.invocations] == ["a"]
    assert not script.complete


@pytest.mark.parametrize(
    "source, expected",
    [
        ("a & b", [("a", "background"), ("b", "")]),
        ("{ a; b; } &\n(c) &", [("a", "background"), ("b", "background"), ("c", "background")]),
        ("a | b", [("a", "piped"), ("b", "piped")]),
        ("a || b", [("a", ""), ("b", "after_failure")]),
        ("a && b || c", [("a", ""), ("b", ""), ("c", "after_failure")]),
        ("if ! a; then b; else c; fi", [("a", ""), ("b", "after_failure"), ("c", "")]),
        ("if a; then b; else c; fi; d", [("a", ""), ("b", ""), ("c", "after_failure"), ("d", "")]),
        ("a; if [ $? -ne 0 ]; then b; fi", [("a", ""), ("b", "after_failure")]),
        ("a; s=$?; [ $s = 0 ] || b", [("a", ""), ("b", "after_failure")]),
        ("a || exit 1; b", [("a", ""), ("b", "")]),
        ("a && exit; b", [("a", ""), ("b", "after_failure")]),
        ("[ -f x ] && a; b", [("a", "maybe"), ("b", "")]),
        ("[ -f x ] && a || b", [("a", "maybe"), ("b", "maybe")]),
        ("if [ -f x ]; then a; else exit 1; fi; b", [("a", ""), ("b", "")]),
        ("if [ -f x ]; then exit 0; fi; a", [("a", "maybe")]),
        ("grep -q x y || a", [("grep -q x y", ""), ("a", "maybe")]),
        ("for i in 1 2; do a && break; b; done; c",
         [("a", "in_loop"), ("b", "after_failure in_loop"), ("a", "after_failure in_loop"),
          ("b", "after_failure in_loop"), ("c", "")]),
        ("until a; do b; done; c", [("a", "in_loop"), ("b", "after_failure in_loop"), ("c", "")]),
        ("while true; do a; done", [("a", "in_loop loop_endless")]),
        ("while :; do [ -f x ] && break; a; done; b", [("a", "in_loop maybe"), ("b", "")]),
        ("while sleep 9; do :; done; a", [("sleep 9", "in_loop loop_endless")]),
        ("f() { while :; do a && return; b; done; }; f; c",
         [("a", "in_loop"), ("b", "after_failure in_loop"), ("c", "")]),
        ("f() { for x in 1 2; do [ -f x ] && return; done; }; f; c", [("c", "")]),
        ("while a; do f() { for x in *; do return; done; }; f; b; done", [("a", "in_loop"), ("b", "in_loop maybe")]),
        ("for f in *.x; do a; done", [("a", "in_loop")]),
        ("for f in $(cmd); do a; done", [("cmd", "captured"), ("a", "in_loop maybe")]),
        ("trap 'a' EXIT; b", [("b", ""), ("a", "in_trap")]),
        ("trap 'a' TERM; b", [("b", "")]),
        ("trap 'a' EXIT; exec b", [("b", "")]),
        ("if ! a 2>&1 | b; then c; exit 1; fi; d", [("a", "piped"), ("b", "piped"), ("c", "after_failure"), ("d", "")]),
        ("(trap 'a' EXIT; b); c", [("b", ""), ("a", "in_trap"), ("c", "")]),
        ("trap 'a' EXIT; (b); c", [("b", ""), ("c", ""), ("a", "in_trap")]),
        ("bash -c \"trap a EXIT; b\"; c", [("b", ""), ("a", "in_trap"), ("c", "")]),
        ("[ -f x ] || exit 1; trap 'a' EXIT; b", [("b", ""), ("a", "in_trap")]),
        ("if [ -f x ]; then trap a EXIT; else trap c EXIT; fi; b",
         [("b", ""), ("a", "in_trap maybe"), ("c", "in_trap maybe")]),
        ("trap 'a' ERR; b", [("b", ""), ("a", "after_failure in_trap")]),
        ("x | xargs -P 2 a", [("x", "piped"), ("a ?", "background in_loop piped maybe")]),
        ("set -e; a | b; c || true; d", [("a", "piped"), ("b", "piped"), ("c", ""), ("d", "")]),
        ("x=$(a)", [("a", "captured")]),
    ],
)  # fmt: skip
def test_it_is_known_how_a_command_is_reached(source: str, expected: list[tuple[str, str]]) -> None:
    assert circumstances(source) == expected


def test_injected_variables_override_defaults() -> None:
    assert commands("a ${N:-8} $M", environment={"N": "4", "M": None}) == ["a 4 ?"]
    assert commands("N=${N:-8}; a $N", environment={"N": None}) == ["a ?"]


def test_positional_parameters_are_none_given_or_unknown() -> None:
    assert commands("a ${1:-x} $#") == ["a x 0"]
    assert commands("a ${1:-x} $#", positional=["y"]) == ["a y 1"]
    assert commands("a ${1:-x} $#", positional=None) == ["a ? ?"]


def test_the_gpus_that_nvidia_smi_lists_are_those_granted() -> None:
    source = "a $(nvidia-smi -L | wc -l) $(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)"
    assert commands(source, gpus_per_node=4) == ["a 4 4"]
    assert commands(source, gpus_per_node=None) == ["a ? ?"]


@pytest.mark.parametrize(
    "source, expected",
    [
        ("nvidia-smi --list-gpus | wc -l", "4"),
        ("nvidia-smi -L | grep -c GPU", "4"),
        ("nvidia-smi -L 2> /dev/null | grep GPU | wc -l", "4"),
        ("nvidia-smi --query-gpu=index --format=csv | tail -n +2 | wc -l", "4"),
        ("nvidia-smi --query-gpu=name --format=csv | wc -l", "5"),
        ("nvidia-smi -i 0 -L | wc -l", "?"),
        ("ls /dev/nvidia[0-9]* | wc -l", "4"),
        ("python -c 'import torch; print(torch.cuda.device_count())'", "4"),
        ("python3 -c 'import os, torch\nprint(torch.cuda.device_count())'", "4"),
        ("python -c 'import torch; print(torch.cuda.device_count() // 2)'", "?"),
        ("CUDA_VISIBLE_DEVICES=0 python -c 'import torch; print(torch.cuda.device_count())'", "?"),
    ],
)
def test_gpus_are_counted_as_scripts_do_it(source: str, expected: str) -> None:
    assert commands(f"a $({source})", gpus_per_node=4)[-1] == f"a {expected}"


def test_a_program_counts_the_gpus_that_it_sees() -> None:
    source = "a $(python -c 'import torch; print(torch.cuda.device_count())') $(nvidia-smi -L | wc -l)"
    assert commands(f"export CUDA_VISIBLE_DEVICES=0,1; {source}", gpus_per_node=4) == ["a 2 4"]
    assert commands(f"export CUDA_VISIBLE_DEVICES=3,4,0; {source}", gpus_per_node=4) == ["a 1 4"]
    assert commands(f"export CUDA_VISIBLE_DEVICES=$X; {source}", gpus_per_node=4) == ["a ? 4"]


def test_files_are_known_as_they_are_when_a_command_runs() -> None:
    first, second = (each for each in read_script("echo 1 > f; a f; echo 2 > ./f; a f").invocations if each.name == "a")
    assert (first.files["f"], second.files["./f"]) == ("1\n", "2\n")


@pytest.mark.parametrize(
    "source, expected",
    [
        ("chmod +x f; cat f; cp f g; accelerate launch --config_file f t.py", "N=4"),
        ("sed -i s/4/8/ f", None),
        ("sudo sed -i s/4/8/ ./f", None),
        ("mv g f", None),
        ("cp g f", None),
        ("python set.py --file=f", None),
        ("echo N=8 >> f", "N=4\nN=8"),
        ("python make.py > f", None),
    ],
)
def test_a_file_is_known_until_a_program_may_have_changed_it(source: str, expected: str | None) -> None:
    last = read_script(f"echo N=4 > f; {source}; a").invocations[-1]
    assert (last.files.get("f") or "").strip() == (expected or "")


def test_files_beside_the_script_are_read() -> None:
    files = {"env.sh": "export N=4\n", "run.sh": "b $N $1\n"}
    assert commands("source env.sh; bash ./run.sh x; ./run.sh y", files=files) == ["b 4 x", "b 4 y"]


def test_defaults_that_were_taken_are_told() -> None:
    assert read_script('a ${N:-8}; [ -z "$M" ] && b').assumed_unset == {"N", "M"}
    assert read_script("N=1; a ${N:-8}").assumed_unset == frozenset()


def test_possible_values_of_several_branches_are_kept() -> None:
    word = read_script("if [ -d x ]; then n=4; else n=8; fi; a --n=$n").invocations[0].argv[1]
    assert word.text is None
    assert word.possible == {"--n=4", "--n=8"}
    assert word.prefix == "--n="


def test_words_that_may_be_any_number_of_words_are_marked() -> None:
    words = read_script('a $x "$x" --y=$x').invocations[0].argv
    assert [word.many for word in words] == [False, True, False, False]
    assert words[3].prefix == "--y="


@pytest.mark.parametrize(
    "source, expected",
    [
        ("a &", False),
        ("(a; b) &", False),
        ("setsid a &", False),
        ("(a &)", True),
        ("(a &) &", True),
        ("bash -c 'a &'", True),
        ("f() { a & }; f", False),
        ("f() { a & }; f | tee log", True),
        ("tmux new -d 'a b'", True),
        ("setsid -f a", True),
    ],
)
def test_a_shell_waits_for_its_own_background_commands_only(source: str, expected: bool) -> None:
    launched = next(each for each in read_script(source).invocations if each.name == "a")
    assert (launched.background, launched.detached) == (True, expected)


@pytest.mark.parametrize(
    "source, expected",
    [
        ('x=$(cat f); a $x "$x" --y=$x', [False, True, False, False]),
        ('x="$(cat f) --b"; a $x', [False, True, False]),
        ('x=("$(cat f)"); a "${x[@]}"', [False, False]),
        ("x=$(date +%s); a $x $RANDOM $HOSTNAME", [False, False, False, False]),
    ],
)
def test_unknown_output_is_split_again_where_a_variable_that_holds_it_stands(source: str, expected: list[bool]) -> None:
    """Dates, counts and names are one word."""
    launched = next(each for each in read_script(source).invocations if each.name == "a")
    assert [word.many for word in launched.argv] == expected


def test_the_environment_is_what_is_exported() -> None:
    source = "A=1; export B=2; C=3 x; env D=4 -u B y; unset B; z"
    environments = [
        {name: word.text for name, word in invocation.environment.items() if name in "ABCD"}
        for invocation in read_script(source, environment={"B": "0"}).invocations
    ]
    assert environments == [{"B": "2", "C": "3"}, {"D": "4"}, {}]


def test_a_branch_on_the_rank_is_told_from_others() -> None:
    source = "if [ $STOKER_NODE_RANK = 0 ]; then a; fi; if [ -f x ]; then b; fi"
    ranks = [each.rank_dependent for each in read_script(source, environment={"STOKER_NODE_RANK": None}).invocations]
    assert ranks == [True, False]


def test_arms_of_a_decision_exclude_each_other() -> None:
    first, second, last = read_script("if [ -f x ]; then a; else b; fi; c").invocations
    assert first.excludes(second)
    assert not first.excludes(last)


def test_a_time_limit_is_kept() -> None:
    invocation = read_script("timeout 2h a").invocations[0]
    assert (invocation.time_limit, invocation.wrappers) == (7200, ("timeout",))


def test_names_come_without_directory() -> None:
    assert read_script("/opt/conda/bin/torchrun x").invocations[0].name == "torchrun"
    assert read_script("$x y").invocations[0].name is None


@pytest.mark.parametrize("source", ["if a; then b", "a 'b", "a $(b", "a && && b", "for do", "cat <<E\nx", "a\0b"])
def test_what_the_grammar_refuses_is_told_and_never_raised(source: str) -> None:
    assert not read_script(source).complete


def test_control_characters_are_parts_of_words_as_they_are_to_a_shell() -> None:
    script = read_script('echo -e "\x1b[32mgo\x1b[0m" \x07 a\x0cb\ntrain')
    assert script.complete
    assert [[str(word) for word in one.argv] for one in script.invocations] == [
        ["echo", "-e", "\x1b[32mgo\x1b[0m", "\x07", "a\x0cb"],
        ["train"],
    ]


def test_syntax_issues_are_located() -> None:
    issue = read_script("a\nb )\nc").syntax_issues[0]
    assert (issue.span.line, issue.span.column, issue.message) == (2, 3, '")" is not understood here')


# --------------------------------------------------------------------------------------------------------------- places


def underlined(script: ShellScript, command: int, word: int) -> str:
    """The word of a command as the excerpt underlines it."""
    span = script.invocations[command].argv[word].span
    assert span is not None
    excerpt = script.excerpt(span)
    return "".join(character for character, mark in zip(excerpt.text, excerpt.marker, strict=False) if mark == "^")


def test_words_know_their_line_and_column() -> None:
    span = read_script("a\n  b --c \\\n    --d=1").invocations[1].argv[2].span
    assert span is not None
    assert (span.line, span.column, span.end_line, span.end_column) == (3, 5, 3, 10)


def test_columns_count_characters() -> None:
    span = read_script("echo 'äö😀'; b c").invocations[1].argv[1].span
    assert span is not None
    assert span.column == 15


def test_continuation_lines_are_joined_in_an_excerpt() -> None:
    script = read_script("torchrun \\\n    --nnodes=2 \\\n    --nproc_per_node=4 train.py\n")
    span = script.invocations[0].argv[2].span
    assert span is not None
    excerpt = script.excerpt(span)
    assert excerpt.text == "torchrun --nnodes=2 --nproc_per_node=4 train.py"
    assert excerpt.marker == "                    ^^^^^^^^^^^^^^^^^^"
    assert excerpt.line == 3


def test_a_long_line_is_cut_around_the_word() -> None:
    script = read_script("x " + "a " * 100 + "--here " + "b " * 100)
    span = script.invocations[0].argv[101].span
    assert span is not None
    excerpt = script.excerpt(span, width=60)
    assert len(excerpt.text) <= 60
    assert underlined(script, 0, 101) == "--here"


def test_a_word_from_a_variable_names_both_places() -> None:
    script = read_script('ARGS="--a 1 --n 4"\nrun $ARGS x')
    word = script.invocations[0].argv[4]
    assert word.text == "4"
    assert underlined(script, 0, 4) == "$ARGS"
    assert word.origin is not None
    assert (word.origin.line, word.origin.column) == (1, 17)


@pytest.mark.parametrize(
    "source",
    [
        "bash -c 'a --n=4 b'",
        'x=1; bash -c "cd $x && a --n=4 b"',
        "eval 'a --n=4 b'",
        "cat > f <<'E'\na --n=4 b\nE\nbash f",
        "f() { a --n=4 b; }; f",
    ],
)
def test_words_of_nested_texts_are_found_in_the_outer_one(source: str) -> None:
    script = read_script(source)
    index = next(index for index, each in enumerate(script.invocations) if each.name == "a")
    assert underlined(script, index, 1) == "--n=4"


# ----------------------------------------------------------------------------------------------------- command and args


def test_a_shell_among_the_arguments_is_followed() -> None:
    script = read_argv(["/usr/bin/tini", "--", "bash", "-lc", "a $X\nb --c", "name"], environment={"X": "1"})
    assert [str(word) for each in script.invocations for word in each.argv] == ["a", "1", "b", "--c"]
    assert (script.argument, script.source) == (4, "a $X\nb --c")
    span = script.invocations[1].argv[1].span
    assert span is not None
    assert (span.line, span.column) == (2, 3)


def test_plain_arguments_are_words_of_one_command_and_know_their_index() -> None:
    script = read_argv(["torchrun", "--nproc_per_node=4", "a b.py", "$X"], environment={"X": "1"})
    words = script.invocations[0].argv
    assert [word.text for word in words] == ["torchrun", "--nproc_per_node=4", "a b.py", "$X"]
    assert [(word.argument, word.span) for word in words] == [(0, None), (1, None), (2, None), (3, None)]
    assert script.argument is None


def test_no_arguments_run_nothing() -> None:
    assert read_argv([]).invocations == ()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("$(N)", "4"),
        ("$$(N)", "$(N)"),
        ("--n=$(N)-$(M)", "--n=4-$(M)"),
        ("$N ${N}", "$N ${N}"),
        ("$(U)", "$(U)"),
        ("$$", "$"),
    ],
)
def test_the_kubelet_expands_known_references_only(text: str, expected: str) -> None:
    assert expand_kubernetes([text], {"N": "4", "U": None}) == (expected,)


def test_a_function_may_wrap_the_command_of_its_own_name() -> None:
    script = 'torchrun() { command torchrun --nproc_per_node=8 "$@"; }\ntorchrun train.py\n'
    assert commands(script) == ["torchrun --nproc_per_node=8 train.py"]
