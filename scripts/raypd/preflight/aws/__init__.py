"""What an AWS account must have before the nodes of a cluster are asked for."""
