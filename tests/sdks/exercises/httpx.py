assert client.get("/user").json()["login"] == "octo"
names, response = [], client.get("/user/repos", params={"per_page": 2})
while True:
    names += [item["name"] for item in response.json()]
    if "next" not in response.links:
        break
    response = client.get(response.links["next"]["url"])
assert names == [f"repo-{number}" for number in range(5)]
assert client.post("/repos/octo/repo-1/issues", json={"title": "By hand"}).status_code == 201
with client.stream("GET", "/repos/octo/none") as response:
    assert (response.status_code, "gateway-error" in response.headers) == (404, False)
    response.read()
