"""The workbench: the verbs in a browser, on this machine only."""
