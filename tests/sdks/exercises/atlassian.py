assert client.get("rest/api/3/myself")["displayName"] == "Dana"
pages, token = [], None
while True:
    page = client.enhanced_jql("project = ACME", nextPageToken=token, limit=2)
    pages += [issue["key"] for issue in page["issues"]]
    token = page.get("nextPageToken")
    if token is None:
        break
assert pages == ["ACME-1", "ACME-2", "ACME-3"]
