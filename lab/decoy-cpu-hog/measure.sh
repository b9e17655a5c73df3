# A computation of fixed length.
took spin sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done'
