"""A stated risk: the least probability of overspending, and the shield that keeps every agent below a given one."""
