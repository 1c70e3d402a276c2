# Prints bytes, time and name of the data files in a folder, also of those that are not complete.
cd @@{folder} 2>/dev/null || exit 0
find . -maxdepth 1 -type f -name '*.h5*' -printf @@{mark}'%s %T@ %f\n'
