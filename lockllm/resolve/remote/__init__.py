"""What is asked over the network: the Hub, the package index, and how both are spoken to."""
