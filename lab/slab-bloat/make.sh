case $1 in
firing) hold messages 130M ;;
esac
