"""Sites: the profile of a cluster, its rules, and what a job may ask there."""
