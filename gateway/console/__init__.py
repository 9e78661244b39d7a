"""The console: web pages for operators, at ``/console`` (docs/console.md). Every page has its data at ``….json``.

    lazy_console                  the handlers, loaded at the first request for a page; the console's own port
    view_table                    the URL path of each view, and the action of each form
    oidc                          the operators' identity provider: the redirect to it, and the check of its ID token
    sign_in                       turns a link or an ID token into a session; finds who is signed in; protects forms
    console_page                  the frame of every page; the data of a page as JSON
    now_view, alarms              what an operator must act on, and a day's calls in numbers; faults of the gateway
    failure_causes                the meaning of each failure and the action that helps, by its reason
    provider_views                calls and failures of each provider, and open circuit breakers
    connection_views              the list of connections; one connection: history, refresh, reconnect link, delete
    call_views, dry_run_act       the call log, one request with all its operations, and a call repeated as a dry run
    key_views, event_views        keys and their limits, revoking keys; deliveries, and sending events again
    incident_views, incident_report   what an integration or a key did within a time span; revokes and deletes
    query_fields                  the query parameters and form fields of a page
    audit_view                    who did what; which key used which connection, and how often
    integration_views             integrations: settings, findings, a link to test an integration
    charts, authorization_counts  charts as inline SVG; authorizations of the last hour, by outcome

A view builds one dictionary of plain values, and the page is rendered from that dictionary only, so page and JSON
cannot differ. Always true: no page shows a credential; a form that changes something is accepted only from an
operator's own page; an idle gateway loads none of these modules; every page works without JavaScript.
"""
