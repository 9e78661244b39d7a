"""``gateway doctor``: what is wrong before an end user finds it; one function a subject.

    doctor_command       the command: which checks run, and how findings are printed
    findings             a finding: subject, place, message, fix; the configuration that is examined
    machine_checks       this machine: files that others may read, room on the disk, the store, the refresh journal
    network_checks       the network: clocks, the way out to providers, the way in by the public URL, a running gateway
    integration_checks   each integration: callback address, scopes, and the client copied from the provider's console

Always true: it changes nothing, and each finding names what fixes it.
"""
