# The role `play`: make.sh does everything. It is sourced, so that it can announce its steps, and end by `finish`.
. ./make.sh
frame_kept
finish passed
