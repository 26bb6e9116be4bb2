"""How a script is walked. Private to `stoker.shell`.

For readers who know bash. The interpreter follows a script as bash would, statement by statement, but runs nothing: it
keeps what each variable can be, and records each command that would run, with its words, its exported variables and how
it is reached.

**From text to commands**

1. `parsed_text` parses the text with tree-sitter's bash grammar and knows where each character of a nested text stands
   in the outermost script. `syntax_errors` finds what no shell accepts.
2. `interpreter.Interpreter` puts the parts together. `walk.Walk` follows statements one after the other and hands each
   to its part: `assignments`, `branches` (if, case), `loops`, `pipelines` (lists, pipes, redirected statements),
   `commands` (simple commands), `tests` (`[ ]`, `(( ))`).
3. A simple command's words are expanded by `expansion.Expander`, with `quoting`, `braces`, `arithmetic`, `glob`,
   `parameter_operators` and, for `$(...)`, `substitutions`. What is left runs as a function, by `builtins`, or by
   `programs`, after `wrappers` (`nohup`, `env`) are taken off. `redirections` knows what it reads, `command_output`
   what a few tools print.
4. `record.Record` keeps each command as a `model.Invocation`.

**What is handed on.** Every function of the walk takes a `state.ShellState` and a `frame.Frame`. The state is what the
shell knows (variables, functions, files, standard input, how this point is reached); it changes as statements run, and
is forked where ways part. The frame is what surrounds a statement (the text, the loops, the calls); it never changes:
whoever goes into something hands on another one.

**What "unknown" means.** A value (`values.Value`) is a few alternative texts of known fragments and holes. A hole
stands for any text and names what it hangs on (`NODE_RANK`, `$(nvidia-smi)`); one that is `many` stands for any number
of words; one that is `absent` is a variable that nobody in sight sets, and counts as unset for `${N:-8}`. What follows
from a hole is a hole. A command that can't be followed makes unknown whatever it may have changed
(`ShellState.forget`).

**Decisions.** The walk follows successful runs: a program is expected to succeed (`state.EXPECTED`), and what stands
behind `||` is reached `after_failure`. Where the answer is unknown (`[ -f x ]`, `grep`), `Walk.arms` follows every arm
from a fork, marks its commands with a `model.Branch`, and joins the states: what differs can be either. An arm that
always ends in failure is taken out of the record again.

**Limits.** `budget.Budget` counts what a whole script costs; beyond it the walk ends (`ExhaustedError`) and the script
is marked as not followed to its end. A limit of one construct stands beside it and makes a value unknown. `declare -n`
and `coproc`, after which nothing can be told, end the walk as well (`NotFollowedError`).
"""
