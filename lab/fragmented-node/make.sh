case $1 in
firing) hold fragment 1640M every=24 ;;
thrash) . ./thrash && thrash anon 128M ;;
pinned | pooled) . ./thrash && thrash fragment 64M every=1 ;;
esac
