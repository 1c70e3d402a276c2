# ---- Slurm
RESTART=${SLURM_RESTART_COUNT:-0} # unset on the first start
if [ "$RESTART" -gt "$MAX_REQUEUES" ]; then
  echo "requeued more than $MAX_REQUEUES times; stopping"
  exit 1
fi
rm -f "$RUN_DIR/cancelled" # it was sent again, by hand
echo "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" >"$RUN_DIR/job.id" # for a sender that got no answer
HOSTS=$SLURM_JOB_NODELIST
# where the ranks meet: the first node; a port below the ephemeral ones, different for jobs that share a node
MASTER_ADDR=$(scontrol show hostnames "$HOSTS" | head -n 1)@@{rendezvous_suffix}
MASTER_PORT=$((20000 + (SLURM_JOB_ID * 7 + RESTART) % 10000))
while (: <"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do MASTER_PORT=$((MASTER_PORT + 1)); done # in use
THIS_JOB=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
THIS_JOB=${THIS_JOB:-$SLURM_JOB_ID}
ask_stacks() { scancel --signal=URG "$THIS_JOB"; } # the ranks of all nodes
RUNNING_JOBS=$(squeue --noheader --me --format=%A 2>/dev/null | tr '\n' ' ') || RUNNING_JOBS=""
export MASTER_ADDR MASTER_PORT RUNNING_JOBS
export SRUN_CPUS_PER_TASK=$CPUS_PER_TASK # since Slurm 22.05 srun does not take it from sbatch

launch() { # launch TASKS_PER_NODE prepare|rank|clean; replaces the shell it runs in
  local step=(srun "--nodes=$NODES" "--ntasks=$((NODES * $1))" "--ntasks-per-node=$1")
  step+=(--export=ALL) # or it would inherit an --export=NONE
  case $2 in
    rank) step+=(--kill-on-bad-exit=1 "--cpus-per-task=$CPUS_PER_TASK"@@{launcher_options}) ;;
    prepare) step=(timeout 600 "${step[@]}" --overlap --mem=0 --gres=none --cpus-per-task=1) ;;
    clean) step=(timeout 20 "${step[@]}" --overlap --mem=0 --gres=none --cpus-per-task=1) ;;
  esac
  exec "${step[@]}" bash "$SCRIPT" "$2"
}
watch_time() { # Slurm itself warns this shell before the time limit: --signal
  @@{idle_guard}
  wait
}
start_again() {
  scontrol show job "$THIS_JOB" | grep -q JobState=RUNNING || return 0 # it was cancelled
  echo "saved; resuming after a requeue, $(date '+%F %T')"
  on_every_node clean || true
  trap '' TERM
  trap - EXIT ERR
  scontrol requeue "$THIS_JOB" && sleep 120 # which ends this shell
}
