"""The console: what operators look at and press, at ``/console`` (docs/console.md). Every page has its data at ``….json``.

    lazy_console                  the handlers, loaded with the first request for a page; the console's own port
    view_table                    which address shows which view, and which form does what
    oidc                          the operators' identity provider: where to, and what its ID token proves
    sign_in                       a link or an ID token becomes a session; who is signed in; forms that only they send
    console_page                  the frame of every page; its data as JSON
    now_view, alarms              what needs a person, and the calls of a day in figures; what is wrong with the gateway
    failure_causes                what a failure means and what helps, by its reason
    provider_views                calls and failures of each provider, and open circuit breakers
    connection_views              connections and one of them: its story, refresh, reconnect link, delete
    call_views, dry_run_act       the call log, one request with all that happened under it, and a call again as a dry run
    key_views, event_views        keys and what they may do, revoke; deliveries and sending again
    incident_views, incident_report   what an integration or a key did within a time span; revokes and deletes
    asked_query                   the parameters of a page's address
    audit_view                    who did what, and which key used which connection how often
    integration_views             integrations: their settings, what looks wrong, a link to test one
    charts, authorization_sums    figures as inline SVG; authorizations of the last hour, by what came of them

A view makes one dictionary of plain values; the page is made of that dictionary and of nothing else, so that page and JSON
cannot differ. Always true: no page shows a credential; a form that acts is refused unless an operator sent it from here; an
idle gateway loads none of this; every page works without JavaScript.
"""
