echo ping >/run/question
read -r answer </run/answer
