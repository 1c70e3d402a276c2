# Appends what it reads to a part of a data file, which takes its name when all of it is there.
set -e
MARK=@@{mark}
PART=@@{part}
mkdir -p @@{folder}
cd @@{folder}
if [ -L "$PART" ]; then
  echo "$MARK$PWD/$PART is a link; remove it"
  exit
fi
exec 9>>"$PART"
if ! flock -w 10 9; then
  echo "${MARK}another push writes $PWD/$PART"
  exit
fi
if [ "$(stat -c %s "$PART")" -lt @@{start} ]; then
  echo "$MARK$PWD/$PART was changed by another push"
  exit
fi
truncate -s @@{start} "$PART"
cat >&9
[ "$(stat -c %s "$PART")" -eq @@{n_bytes} ] # else the connection was cut: the next push goes on
if [ "$(sha256sum <"$PART")" != @@{sha256}'  -' ]; then
  rm "$PART"
  echo "${MARK}the file did not arrive as it was sent"
  exit
fi
chmod a-w "$PART"
mv -f "$PART" @@{file}
