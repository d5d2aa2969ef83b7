# Reads the event feed by a generated client: prints the type of each event, its class, and whether the union has the class.
import importlib, json, sys, typing

directory, url, key = sys.argv[1:]
sys.path.insert(0, directory)
client = importlib.import_module("python").Client(base_url=url, headers={"X-API-KEY": key})
list_events = importlib.import_module("python.api.webhooks.list_events")
page = list_events.sync(client=client, limit=100)
names = {**vars(typing), **vars(importlib.import_module("python.models"))}
union = typing.get_args(typing.get_type_hints(type(page), names)["data"])[0]
members = typing.get_args(union)
print(json.dumps([[event.type_, type(event).__name__, type(event) in members] for event in page.data]))
