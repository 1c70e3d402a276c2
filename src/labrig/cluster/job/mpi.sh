# ---- MPI starts the processes, torch connects them
rm -f "$RUN_DIR/cancelled" # it was sent again, by hand
echo "${JOB%%_*}" >"$RUN_DIR/job.id" # for a sender that got no answer
HOST_FILE=${@@{host_variable}:-$RUN_DIR/hosts} # unset in jobs on a part of a node
[ -n "${@@{host_variable}:-}" ] || hostname >"$HOST_FILE"
HOSTS=$(awk '!seen[$1]++ {print $1}' "$HOST_FILE" | tr '\n' ' ')
MASTER_ADDR=${HOSTS%% *}@@{rendezvous_suffix}
# below the ephemeral ports, different for jobs that share a node: for all tasks of an array, and for jobs and
# tasks whose numbers differ by less than 99
NUMBER=${JOB%%[!0-9]*}
NUMBER=${NUMBER:-$(printf %s "$JOB" | cksum | cut -d' ' -f1)} # of an id that begins with a letter
MASTER_PORT=$((20000 + (NUMBER * 7 + LAB_INDEX * 693) % 10000))
while (: <"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do MASTER_PORT=$((MASTER_PORT + 1)); done # in use
export MASTER_ADDR MASTER_PORT

launch() { # launch PROCESSES_PER_NODE prepare|rank|clean; replaces the shell it runs in
  if [ "$NODES" = 1 ] && [ "$1" = 1 ]; then exec bash "$SCRIPT" "$2"; fi
  exec @@{launcher} -n "$((NODES * $1))" -npernode "$1" -x LAB_JOB -x LAB_INDEX -x LAB_NEXT_ATTEMPT \
    -x MASTER_ADDR -x MASTER_PORT@@{launcher_options} bash "$SCRIPT" "$2"
}
watch_time() { # the scheduler does not warn before the time limit
  @@{idle_guard}
  sleep @@{warn_after_s} && kill -USR2 $$
}
start_again() {
  local count
  count=$(($(cat "$RUN_DIR/requeues" 2>/dev/null || echo 0) + 1))
  if [ "$count" -gt "$MAX_REQUEUES" ]; then
    echo "requeued $MAX_REQUEUES times; stopping"
    return 0
  fi
  echo "$count" >"$RUN_DIR/requeues"
  echo "saved; resuming after requeue $count, $(date '+%F %T')"
  @@{again}
}
