"""``gateway doctor``: what is wrong before an end user finds it; one function a subject.

    doctor_command.py      ``gateway doctor``: what is wrong before an end user finds it.
    findings.py            What was found and what fixes it; the configuration that is examined.
    machine_checks.py      This machine: files that others may read, room on the disk, the store, the refresh
                           journal.
    network_checks.py      The network: clocks, the way out to providers, the way in by the public URL, a gateway
                           that runs here.
    integration_checks.py  An integration as declared: what to paste at the provider, its scopes, and the client
                           that was copied from its console.

Always true: it changes nothing.
"""
