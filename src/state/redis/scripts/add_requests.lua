-- Keeps requests for the console, once per batch, and no more of them than the newest.
--
-- KEYS batch requests
-- ARGV records token_ms max
-- Reply 1 | 0: whether this call kept them
--
-- `records` is a JSON list of ids and records in turn, which are texts to this script. `batch` is a key of the batch's
-- own and remembers it for `token_ms`. See request_steps.lua.

local batch, requests = KEYS[1], KEYS[2]
local token_ms, max = ARGV[2], tonumber(ARGV[3])

local records = cjson.decode(ARGV[1])
if not redis.call('SET', batch, '', 'NX', 'PX', token_ms) then return 0 end

local stream = stream_of(requests, today)
for i = 1, #records, 2 do redis.call('XADD', stream, '*', 'id', records[i], 'record', records[i + 1]) end
redis.call('PEXPIREAT', stream, string.format('%.0f', (today + KEEP_DAYS) * DAY_MS))

local newer = 0
for _, each in ipairs(streams_of(requests)) do
  newer = newer + redis.call('XLEN', each)
  if newer > max then
    local over = newer - max
    newer = max
    redis.call('XTRIM', each, 'MAXLEN', redis.call('XLEN', each) - over)
  end
end
return 1
