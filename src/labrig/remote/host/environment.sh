# Makes the environment of a lock file, as `make setup` does, unless it is there.
set -e
cd @@{code}
ENVIRONMENT=@@{environment}
READY=$ENVIRONMENT/@@{ready}
mkdir -p "$(dirname "$ENVIRONMENT")"
# Two submissions at once must not write into one environment.
exec 9>"$ENVIRONMENT.lock"
flock 9 || true
if [ ! -e "$READY" ]; then
  rm -rf "$ENVIRONMENT"
  export LAB_ENVIRONMENT=$ENVIRONMENT LABRIG=@@{library}
  ${PYTHON:-python3} tools/bootstrap.py setup packages
  touch "$READY"
fi
