"""Prints, as JSON, the calls that AgentDojo's injection tasks want from an agent. Needs the package `agentdojo`."""

import json

from agentdojo.task_suite.load_suites import get_suites

tasks = []
for name, suite in get_suites("v1.2.2").items():
    environment = suite.load_and_inject_default_environment({})
    for task_id, task in suite.injection_tasks.items():
        calls = [[call.function, dict(call.args)] for call in task.ground_truth(environment)]
        tasks.append({"suite": name, "task": task_id, "calls": calls})
print(json.dumps(tasks, default=str))
