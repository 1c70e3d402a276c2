#!/bin/bash
# @@{title}
# Again by hand, continuing the same run: bash @@{script}
@@{common}
if [ "${#RUNS[@]}" -gt 1 ]; then # the runs of an array wait for each other
  exec 9>"$SCRIPT.lock"
  flock 9
fi
if [ -e "$RUN_DIR/cancelled" ]; then exit 130; fi
exec >>"$RUN_DIR/job.log" 2>&1
echo "process $$ on $(hostname -s), GPUs ${CUDA_VISIBLE_DEVICES:-none}, $(date '+%F %T'): $RUN_DIR"
trap clean EXIT
prepare

# ---- the ranks: one process per GPU, on this machine
if [ "$TASKS_PER_NODE" = 1 ]; then
  bash "$SCRIPT" rank &
else
  signal_ranks() { pkill -USR2 -P "$STEP"; } # torchrun itself would die of it
  COMMAND=("${COMMAND[0]}" -m torch.distributed.run --standalone --nproc-per-node="$TASKS_PER_NODE" "${COMMAND[@]:1}")
  (rank) &
fi
STEP=$!
(
  sleep @@{warn_after_s} && kill -USR2 $$
  sleep @@{lead_s} && pkill -KILL -P "$STEP"
  kill -KILL "$STEP"
) 2>/dev/null &
CLOCK=$!
GUARD=""
@@{idle_guard}code=0
await_step || code=$?
stop_helper "$CLOCK"
stop_helper "$GUARD"
if [ -e "$RUN_DIR/requeue" ]; then echo "stopped and saved; continue with: lab resume $(basename "$RUN_DIR")"; fi
echo "ended with code $code, $(date '+%F %T')"
exit "$code"
