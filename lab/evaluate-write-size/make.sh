# Nothing yet: the writer is the condition, and it is measured.
