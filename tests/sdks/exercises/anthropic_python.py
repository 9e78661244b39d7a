asked = {"model": "claude-test", "max_tokens": 9, "messages": [{"role": "user", "content": "Grüß dich"}]}
assert client.messages.create(**asked).content[0].text == "Hello from the provider"
with client.messages.stream(**asked) as stream:
    assert list(stream.text_stream) == ["Hello", " from", " the", " provider"]
    assert stream.get_final_message().stop_reason == "end_turn"
assert [model.id for model in client.models.list(limit=2)] == ["claude-a", "claude-b", "claude-c"]
