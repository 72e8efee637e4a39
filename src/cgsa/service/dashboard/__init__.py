"""The dashboard: status, diagnoses, alarms and learning of the machines, in a browser.

Pages are drawn by NiceGUI, which includes all its files: nothing is loaded from other sites, so the pages work without
an internet connection.
"""
