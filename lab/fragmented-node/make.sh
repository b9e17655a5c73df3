case $1 in
firing) hold fragment 1640M every=24 ;;
esac
