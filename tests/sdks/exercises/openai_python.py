import io

import openai

assert [model.id for model in client.models.list()] == ["gpt-test"]
asked = {"model": "gpt-test", "messages": [{"role": "user", "content": "Grüß dich"}]}
assert client.chat.completions.create(**asked).choices[0].message.content == "Hello from the provider"
with client.chat.completions.create(**asked, stream=True) as stream:
    pieces = [chunk.choices[0].delta.content for chunk in stream]
assert pieces == ["Hello", " from", " the", " provider"], pieces
file = client.files.create(file=("a.jsonl", io.BytesIO(b"{}\n" * 50_000)), purpose="batch")
assert file.bytes == 150_000
try:
    client.chat.completions.create(**{**asked, "model": "gpt-none"})
except openai.NotFoundError as refused:
    assert refused.code == "model_not_found"
else:
    raise AssertionError("the provider's 404 was lost")
if "Connection-Id" in client.default_headers:  # with headers, the same client can name a connection that does not exist
    try:
        client.with_options(default_headers={"Connection-Id": "nobody"}).models.list()
    except openai.NotFoundError as missing:
        assert "has no connection 'nobody'. Check the id, or open http://127.0.0.1:" in missing.message, missing.message
    else:
        raise AssertionError("a missing connection was not refused")
