#!/bin/bash
@@{directives}
# @@{title}
# Again by hand, continuing the same run: @@{submit} @@{script}
if [ -z "${@@{job_variable}:-}" ]; then echo "this script runs inside a job; type: @@{submit} $0" >&2 && exit 2; fi

@@{common}

NODES=@@{nodes} MAX_REQUEUES=@@{max_requeues}
# ---- rendezvous, and how processes are started: MPI starts them, torch connects them
HOST_FILE=${@@{host_variable}:-$RUN_DIR/hosts} # unset in jobs on a part of a node
[ -n "${@@{host_variable}:-}" ] || hostname >"$HOST_FILE"
mapfile -t HOSTS < <(awk '!seen[$1]++ {print $1}' "$HOST_FILE")
MASTER_ADDR=${HOSTS[0]}
MASTER_PORT=$((20000 + (${JOB%%[!0-9]*} * 7 + LAB_INDEX) % 10000))
export MASTER_ADDR MASTER_PORT
launch() { # launch PROCESSES_PER_NODE prepare|rank|clean; replaces the shell it runs in
  if [ "$NODES" = 1 ] && [ "$1" = 1 ]; then exec bash "$SCRIPT" "$2"; fi
  exec @@{launcher} -n "$((NODES * $1))" -npernode "$1" -x LAB_JOB -x LAB_INDEX -x LAB_NEXT_ATTEMPT \
    -x MASTER_ADDR -x MASTER_PORT @@{launcher_options}bash "$SCRIPT" "$2"
}
echo "job $JOB on ${HOSTS[*]}, $(date '+%F %T'): $RUN_DIR"
trap '(launch 1 clean)' EXIT
(launch 1 prepare)

# ---- the ranks: one process per GPU. The scheduler does not warn before the time limit; a clock here does
launch "$TASKS_PER_NODE" rank &
STEP=$!
(sleep @@{warn_after_s} && kill -USR2 $$) &
CLOCK=$!
code=0
await_step || code=$?
stop_helper "$CLOCK"

# ---- the end, or once more
if [ -e "$RUN_DIR/requeue" ] && [ ! -e "$RUN_DIR/cancelled" ]; then
  COUNT=$(($(cat "$RUN_DIR/requeues" 2>/dev/null || echo 0) + 1))
  if [ "$COUNT" -le "$MAX_REQUEUES" ]; then
    echo "$COUNT" >"$RUN_DIR/requeues"
    echo "saved; going on after requeue $COUNT, $(date '+%F %T')"
    @@{again}
  fi
  echo "requeued $MAX_REQUEUES times; stopping"
fi
echo "ended with code $code, $(date '+%F %T')"
exit "$code"
