# Runs a DLJob's script ($1) as the container's first process: `/bin/sh -c THIS stoker SCRIPT`.
#
# The kernel drops a SIGTERM that process 1 has no handler for, and a shell does not pass it on: without an init a training run is
# killed when its grace period ends, before it has saved anything. So signals go to the whole process group of the script, and after
# one the container lives until the last process has ended: the script's own shell dies at once while the training that it started
# may still be writing its checkpoint. What has left the group gets the signal when its parent has ended. The exit code is the
# script's (128+n when signal n ended it).
run='
set -m
bash -c "$1" <&0 &
set +m'
if command -v bash > /dev/null 2>&1; then
  shell=bash
else
  # Without a terminal other shells have no job control: a session of its own gives the script a process group.
  shell=sh
  run='setsid sh -c "$1" <&0 &'
  command -v setsid > /dev/null 2>&1 || run='sh -c "$1" <&0 &'
fi
exec "$shell" -c '
child=
early=
stopping=
told=
# Reads the pid, the name and the process group of a process, given as its folder in /proc; fails where it is gone.
look() {
  { read -r stat < "$1/stat"; } 2> /dev/null || return 1
  pid=${stat%% *}
  name=${stat#*"("}
  name=${name%")"*}
  set -- ${stat##*")"}
  group=$3
}
# Whether /proc counts processes as we do.
sees() {
  look /proc/self && [ "$pid" = "$$" ]
}
is_piped_to_tee() {
  sees || return 1
  for process in /proc/[0-9]*; do
    if look "$process" && [ "$group" = "$child" ] && [ "$name" = tee ]; then return 0; fi
  done
  return 1
}
tell() {
  # Without tee nobody before it could write any more, a checkpoint`s progress included. It ends by itself after them.
  if is_piped_to_tee; then
    for process in /proc/[0-9]*; do
      if look "$process" && [ "$group" = "$child" ] && [ "$name" != tee ]; then kill -s "$1" "$pid" 2> /dev/null; fi
    done
    return
  fi
  kill -s "$1" -- "-$child" 2> /dev/null || kill -s "$1" "$child" 2> /dev/null
}
forward() {
  signalled=1
  case "$1" in TERM | INT | QUIT | HUP) stopping=$1 ;; esac
  # The handlers stand before the script starts: a signal in between waits for it.
  if [ -z "$child" ]; then
    early="$early $1"
    return
  fi
  tell "$1"
}
# Passes the signal on to what has left the group: once its parent has ended it is a child of process 1. Fails where there is none.
tell_orphans() {
  sees || return 1
  orphans= left=
  { read -r orphans < /proc/thread-self/children; } 2> /dev/null
  for orphan in $orphans; do
    if ! look "/proc/$orphan" || [ "$group" = "$child" ]; then continue; fi
    left=1
    case " $told " in *" $orphan "*) continue ;; esac
    told="$told $orphan"
    kill -s "$stopping" "$orphan" 2> /dev/null
  done
  [ -n "$left" ]
}
for signal in TERM INT QUIT HUP USR1 USR2; do
  trap "forward $signal" "$signal"
done
'"$run"'
child=$!
for signal in $early; do forward "$signal"; done
code=
while :; do
  signalled=
  wait "$child"
  status=$?
  # A second wait for a child that has been waited for: what the first one said stands.
  if [ "$status" -eq 127 ] && [ -n "$code" ]; then break; fi
  code=$status
  # A signal ends the wait, not the child.
  [ -n "$signalled" ] || break
done
if [ -n "$stopping" ]; then
  while tell_orphans || kill -s 0 -- "-$child" 2> /dev/null; do sleep 1; done
fi
exit "$code"' stoker "$1"
