# Makes the project's place on this host, and says what is there already.
MARK=@@{mark}
mkdir -p @@{folder}/received && cd @@{folder} || exit 0 # that no place is named says it
echo "${MARK}place $PWD"
if [ -e @@{label} ]; then echo "${MARK}code"; fi
if [ -e @@{ready} ]; then echo "${MARK}environment"; fi
for bundle in @@{bundles}; do
  if [ -e "bundles/$bundle" ]; then echo "$MARK$bundle"; fi
done
