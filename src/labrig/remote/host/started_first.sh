# ---- sent to several hosts: the job that starts first continues
THIS_HOST=@@{name}
FIRST_HOST=@@{judge}
CLAIM=@@{claim}
if [ -d @@{folder} ]; then
  FIRST=$(bash -c "$CLAIM" || true)
else
  FIRST=$(ssh -o BatchMode=yes -o ConnectTimeout=20 -- "$FIRST_HOST" "$CLAIM" </dev/null || true)
fi
if [ -z "$FIRST" ]; then
  echo "$FIRST_HOST does not answer, so this job may not be the only one" >>"$LOG"
elif [ "$FIRST" != "$THIS_HOST" ]; then
  echo "the job on $FIRST has started first; this one ends" >>"$LOG"
  echo "the job on $FIRST started first" >"$RUN_DIR/cancelled" # lab queue says it
  exit 0
fi
