"""``gateway doctor``: finds problems before an end user does. One function per subject.

    doctor_command       the command: runs the checks and prints the findings
    findings             a finding with subject, place, message and fix; the configuration that is examined
    machine_checks       checks this machine: file permissions, disk space, the store, the refresh journal
    network_checks       checks the network: clocks, providers, the public URL, a gateway that runs on this machine
    integration_checks   checks each integration: callback URL, scopes, and the client copied from the provider

Always true: the command changes nothing, and each finding says how to fix the problem.
"""
