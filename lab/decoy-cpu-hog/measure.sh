# A computation of fixed length.
took -n 3 spin sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done'
