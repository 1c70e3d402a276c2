# shellcheck shell=bash
# Functions of slurm_up.sh, slurm_accounts.sh and gridengine_up.sh, which set DIR.

within() { # within SECONDS COMMAND...: repeats it until it succeeds
  local end=$((SECONDS + $1))
  until "${@:2}" &>/dev/null; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}
daemon() { # daemon NAME COMMAND...: in the background, its pid remembered
  setsid "${@:2}" </dev/null >>"$DIR/log/$1.out" 2>&1 &
  echo $! >"$DIR/pid/$1"
}
