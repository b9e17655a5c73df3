case $1 in
firing*) hold anon 940M ;;
quiet*) hold anon 300M ;;
esac
