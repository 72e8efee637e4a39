"""The program that sends the samples of one machine to a service, and what writes it for a machine."""
