# ---- sent from another machine: only the job that was sent last continues
LOG="$RUN_DIR/job.log"
if [ -e @@{sending} ] && [ "$(cat @@{sending})" != @@{nonce} ]; then
  echo "job $JOB was sent again after a failure; this first one ends" >>"$LOG"
  exit 0
fi
