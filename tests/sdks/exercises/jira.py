assert client.myself()["displayName"] == "Dana"
found = client.enhanced_search_issues("project = ACME", maxResults=False)  # every page
assert [item.key for item in found] == ["ACME-1", "ACME-2", "ACME-3"]
issue = client.issue("ACME-2")
issue.update(fields={"summary": "Changed on the way"})  # uses the URL in the body
assert client.issue("ACME-2").fields.summary == "Changed on the way"
assert client._session.get(f"{API}/oauth/token/accessible-resources").json()[0]["name"] == "acme"
