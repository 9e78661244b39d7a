assert.equal((await client.rest.users.getAuthenticated()).data.login, "octo");
const found = await client.paginate(client.rest.repos.listForAuthenticatedUser, { per_page: 2 });
assert.deepEqual(found.map((one) => one.name), [0, 1, 2, 3, 4].map((number) => `repo-${number}`));
const where = { owner: "octo", repo: "repo-1" };
const made = await client.rest.issues.create({ ...where, title: "Found on the way" });
await client.rest.issues.update({ ...where, issue_number: made.data.number, state: "closed" });
assert.equal((await client.rest.issues.listForRepo(where)).data[0].state, "closed");
await assert.rejects(client.rest.repos.get({ owner: "octo", repo: "none" }), { status: 404 });
