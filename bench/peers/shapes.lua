-- Sends the requests that BENCH_SHAPES lists: "METHOD PATH BODY HEADERS TRACE KEEP_ALIVE WEIGHT", separated by ";".
-- TRACE 1: each request has another traceparent; 2: also another tracestate, Idempotency-Key and X-Request-Id.
-- BENCH_BODY stands for the body itself; with BENCH_TURNS requests take turns over the connections c0, c1 …
local prefix, mix = os.getenv("BENCH_PREFIX") or "", os.getenv("BENCH_MIX") == "1"
local shapes, total, sent, inTurn = {}, 0, 0, {}

function init(args)
  math.randomseed(1)
  for line in os.getenv("BENCH_SHAPES"):gmatch("[^;]+") do
    local m, p, b, h, t, k, w = line:match("(%S+) (%S+) (%d+) (%d+) (%d) (%d) (%d+)")
    total = total + tonumber(w)
    shapes[#shapes + 1] = { method = m, path = prefix .. p, size = tonumber(b), extra = tonumber(h), trace = t ~= "0",
      ids = t == "2", keep = k == "1", upto = total }
  end
  for _, shape in ipairs(shapes) do
    if shape.size > 0 then
      shape.body = os.getenv("BENCH_BODY")
      if not shape.body or shape.body == "" then shape.body = string.rep("x", shape.size) end
    end
    shape.headers = {}
    for name, value in pairs(wrk.headers) do shape.headers[name] = value end
    if shape.body then shape.headers["Content-Type"] = "application/json" end
    if shape.method == "DELETE" then shape.headers["Content-Length"] = "0" end
    if not shape.keep then shape.headers["Connection"] = "close" end
    for number = 1, shape.extra / 256 do shape.headers["X-Extra-" .. number] = string.rep("h", 244) end
    shape.plain = wrk.format(shape.method, shape.path, shape.headers, shape.body)
  end
  for number = 1, tonumber(os.getenv("BENCH_TURNS") or "0") do
    shapes[1].headers["Connection-Id"] = "c" .. (number - 1)
    inTurn[number] = wrk.format(shapes[1].method, shapes[1].path, shapes[1].headers, shapes[1].body)
  end
end

function request()
  sent = sent + 1
  if #inTurn > 0 then return inTurn[sent % #inTurn + 1] end
  local shape, at = shapes[1], math.random(total)
  for _, one in ipairs(shapes) do
    if at <= one.upto then shape = one break end
  end
  if not (shape.trace or (mix and sent % 2 == 0)) then return shape.plain end
  shape.headers["traceparent"] = string.format("00-%032x-%016x-01", sent, sent)
  if shape.ids then
    shape.headers["tracestate"] = string.format("vendor=s:1;p:%016x", sent)
    shape.headers["Idempotency-Key"] = string.format("%08x-0000-4000-8000-%012x", sent, sent)
    shape.headers["X-Request-Id"] = string.format("%032x", sent)
  end
  return wrk.format(shape.method, shape.path, shape.headers, shape.body)
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("\nBENCH %d %d\n", summary.requests, e.connect + e.read + e.write + e.status + e.timeout))
end
