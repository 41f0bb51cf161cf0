"""What browsers keep on this machine: where their profiles are, and what is in their files."""
