# A computation of fixed length, as a service does to answer.
i=0
while [ $i -lt 30000 ]; do i=$((i + 1)); done
