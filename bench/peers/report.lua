-- Prints what a run of wrk came to as one line of JSON, and takes turns over connections c0, c1 … where BENCH_CONNECTIONS says how many.
local turn, prepared = 0, {}

function init(args)
  local count = tonumber(os.getenv("BENCH_CONNECTIONS") or "0")
  for number = 0, count - 1 do
    wrk.headers["Connection-Id"] = "c" .. number
    prepared[number + 1] = wrk.format()
  end
  if count > 0 then
    request = function()
      turn = turn % count + 1
      return prepared[turn]
    end
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('\nBENCH {"requests": %d, "seconds": %.6f, "failed": %d, "p50_us": %d, "p99_us": %d}\n',
    summary.requests, summary.duration / 1e6, failed, latency:percentile(50), latency:percentile(99)))
end
