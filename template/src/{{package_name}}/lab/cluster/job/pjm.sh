#!/bin/bash
@@{directives}
# @@{title}
# Again by hand, continuing the same run: pjsub @@{script}
if [ -z "${PJM_JOBID:-}" ]; then echo "this script runs inside a PJM job; type: pjsub $0" >&2 && exit 2; fi

@@{common}
HOST_FILE=${PJM_O_NODEINF:-$RUN_DIR/hosts} # unset in jobs on a part of a node
[ -n "${PJM_O_NODEINF:-}" ] || hostname >"$HOST_FILE"
@@{mpi}
echo "job $PJM_JOBID on ${HOSTS[*]}, $(date '+%F %T'): $RUN_DIR"
(launch 1 prepare)

# ---- the ranks: one process per GPU. PJM does not warn before the time limit; a clock here does
launch "$TASKS_PER_NODE" rank &
STEP=$!
(sleep @@{warn_after_s} && kill -USR2 $$) &
CLOCK=$!
code=0
await_step || code=$?
stop_helper "$CLOCK"

@@{continue}
