virtualenv --no-download "$NODE_DIR/env" # the packages: the centre's wheels, in the versions that the run recorded
grep -Ev ' @ |^(labrig|pip|setuptools|wheel)==' "$RUN_DIR/env.txt" >"$NODE_DIR/wheels.txt"
"$NODE_DIR/env/bin/python" -m pip install --quiet --no-index --requirement "$NODE_DIR/wheels.txt"
# the library is the one that is frozen with the code
echo "$LAB_FROZEN/labrig-frozen" >"$(echo "$NODE_DIR"/env/lib/python3*/site-packages)/labrig.pth"
printf '#!/bin/sh\nexec "%s" -m labrig "%s"\n' "$NODE_DIR/env/bin/python" "\$@" >"$NODE_DIR/env/bin/lab"
chmod +x "$NODE_DIR/env/bin/lab"
