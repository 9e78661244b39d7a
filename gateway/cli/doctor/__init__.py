"""``gateway doctor``: finds problems before an end user does. One function per subject.

    doctor_command       the command: runs the checks and prints the findings
    findings             a finding: subject, place, message, fix; the configuration that is examined
    machine_checks       this machine: file permissions, disk space, the store, the refresh journal
    network_checks       the network: clocks, outbound to providers, inbound by the public URL, a running gateway
    integration_checks   each integration: callback URL, scopes, and the client copied from the provider's console

Always true: it changes nothing, and each finding names what fixes it.
"""
