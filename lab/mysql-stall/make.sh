. ./memory
in_pieces
