"""What runs beside the devices, CPU included: workers, rank processes and their process group."""
