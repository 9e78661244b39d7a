assert client.get(f"{BASE}/user").json()["login"] == "octo"
names, response = [], client.get(f"{BASE}/user/repos", params={"per_page": 2})
while True:
    names += [item["name"] for item in response.json()]
    if "next" not in response.links:
        break
    response = client.get(response.links["next"]["url"])
assert names == [f"repo-{number}" for number in range(5)]
assert client.post(f"{BASE}/repos/octo/repo-1/issues", json={"title": "By hand"}).status_code == 201
assert client.get(f"{BASE}/repos/octo/none").status_code == 404
