"""The MCC5-THU gearbox and motor data sets: file names, columns, units and peculiarities of their files."""
