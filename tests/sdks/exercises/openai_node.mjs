const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, ["gpt-test"]);
const asked = { model: "gpt-test", messages: [{ role: "user", content: "Grüß dich" }] };
const whole = await client.chat.completions.create(asked);
assert.equal(whole.choices[0].message.content, "Hello from the provider");
const pieces = [];
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
  pieces.push(chunk.choices[0].delta.content);
}
assert.deepEqual(pieces, ["Hello", " from", " the", " provider"]);
await assert.rejects(client.chat.completions.create({ ...asked, model: "gpt-none" }), { status: 404 });
