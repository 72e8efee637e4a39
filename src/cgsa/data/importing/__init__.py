"""From folders of recordings, as people have them, to a data set."""
