# Unpacks the code and the library of a commit, with the label that it reads.
# A tree with half of its label never has its name.
set -e
cd @@{folder}
export GIT_DIR=$PWD/code.git
[ -e code.git ] || git init -q --bare code.git
for bundle in @@{bundles}; do
  FILE=$PWD/bundles/$bundle
  case $FILE in
  *.gz.bundle)
    gunzip -c <"$FILE" >"$FILE.$$"
    git fetch -q "$FILE.$$" '+refs/*:refs/*'
    rm "$FILE.$$"
    ;;
  *) git fetch -q "$FILE" '+refs/*:refs/*' ;;
  esac
done
NEW=$PWD/code/@@{name}.$$
mkdir -p "$NEW"
export GIT_WORK_TREE=$NEW GIT_INDEX_FILE=$NEW.index
git read-tree @@{commit}
git read-tree --prefix=@@{library_folder}/ @@{library}
git checkout-index -a -f
rm "$NEW.index"
cat >"$NEW/"@@{label}
[ "$(wc -c <"$NEW/"@@{label})" -eq @@{n_bytes} ]
mv -T "$NEW" code/@@{name} 2>/dev/null || rm -rf "$NEW" # another submission was faster
