"""One file a format: each reader turns a file into a Recording."""
