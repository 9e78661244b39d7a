assert.equal((await client.auth.test()).team, "Acme");
const channels = [];
for await (const page of client.paginate("conversations.list", { limit: 2 })) {
  channels.push(...page.channels.map((one) => one.name));
}
assert.deepEqual(channels, ["general", "random", "ops"]);
const said = await client.chat.postMessage({ channel: "Cgeneral", text: "Grüße & <more>" });
assert.equal(said.message.text, "Grüße & <more>");
await assert.rejects(client.chat.postMessage({ channel: "Cnone", text: "x" }), /channel_not_found/);
assert.equal((await client.filesUploadV2({ content: "hello", filename: "a.txt" })).ok, true);
