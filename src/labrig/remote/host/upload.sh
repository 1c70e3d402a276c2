# Writes what it reads to a file; half of one never has its name.
set -e
FILE=@@{file}
mkdir -p "$(dirname "$FILE")"
cat >"$FILE.$$"
[ "$(wc -c <"$FILE.$$")" -eq @@{n_bytes} ]
mv "$FILE.$$" "$FILE"
