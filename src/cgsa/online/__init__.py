"""The online stage: methods that diagnose an unlabelled stream and adapt to it."""
