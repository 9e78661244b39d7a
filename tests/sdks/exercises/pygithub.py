from github import UnknownObjectException

assert client.get_user().login == "octo"
client.per_page = 2
assert [repo.name for repo in client.get_user().get_repos()] == [f"repo-{number}" for number in range(5)]
repository = client.get_repo("octo/repo-1")
issue = repository.create_issue(title="Found on the way")  # uses the URL in the body
issue.edit(state="closed")
assert [(item.title, item.state) for item in repository.get_issues()] == [("Found on the way", "closed")]
try:
    client.get_repo("octo/none")
except UnknownObjectException as refused:
    assert refused.status == 404
else:
    raise AssertionError("the provider's 404 was lost")
