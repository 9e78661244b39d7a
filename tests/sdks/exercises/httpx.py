assert client.get("/user").json()["login"] == "octo"
names, answer = [], client.get("/user/repos", params={"per_page": 2})
while True:
    names += [one["name"] for one in answer.json()]
    if "next" not in answer.links:
        break
    answer = client.get(answer.links["next"]["url"])
assert names == [f"repo-{number}" for number in range(5)]
assert client.post("/repos/octo/repo-1/issues", json={"title": "By hand"}).status_code == 201
with client.stream("GET", "/repos/octo/none") as answer:
    assert (answer.status_code, "gateway-error" in answer.headers) == (404, False)
    answer.read()
