case $1 in
firing-descriptors*) opened 1024 0 ;;
quiet-descriptors*) opened 1024 10 && opened 256 0 ;;
firing*)
    read -r used rest </proc/sys/fs/file-nr
    echo "$used" >/proc/sys/fs/file-max
    ;;
esac
