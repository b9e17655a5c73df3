case $1 in
firing) hold anon 700M name=systemd-journal ;;
quiet) hold anon 700M uid=1000 name=systemd-journal ;;
esac
