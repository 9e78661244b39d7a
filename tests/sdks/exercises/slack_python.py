from slack_sdk.errors import SlackApiError

assert client.auth_test()["team"] == "Acme"
pages = client.conversations_list(limit=2)  # iterating follows the cursor
assert [channel["name"] for page in pages for channel in page["channels"]] == ["general", "random", "ops"]
assert client.chat_postMessage(channel="Cgeneral", text="Grüße & <more>")["message"]["text"] == "Grüße & <more>"
assert client.files_upload_v2(content="hello", filename="a.txt")["files"][0]["id"] == "F1"
try:
    client.chat_postMessage(channel="Cnone", text="x")
except SlackApiError as refused:
    assert refused.response["error"] == "channel_not_found"
else:
    raise AssertionError("the provider's refusal was lost")
