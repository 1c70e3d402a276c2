lab: job.nodes=2, but workstation is one machine without a scheduler. Leave it out.
