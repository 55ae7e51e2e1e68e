-- Keeps requests for the console, once per batch, and no more of them than the newest.
--
-- KEYS batch requests
-- ARGV entries token_ms max
-- Reply 1 | 0: whether this call kept them
--
-- Each day (UTC, by this clock) has a stream of its own: `requests`, a colon, and the number of the day since 1970. It
-- goes by itself when its beginning is KEEP_DAYS old, so that nothing is kept longer, also when nothing is added any
-- more. `entries` is a JSON list of pairs of texts: what a request is chosen by, and all that is kept of it. `batch` is
-- a key of the batch's own and remembers it for `token_ms`.

local KEEP_DAYS = 7
local DAY_MS = 86400000

local batch, requests = KEYS[1], KEYS[2]
local token_ms, max = ARGV[2], tonumber(ARGV[3])

local entries = cjson.decode(ARGV[1])
if not redis.call('SET', batch, '', 'NX', 'PX', token_ms) then return 0 end

local time = redis.call('TIME')
local today = math.floor(time[1] * 1000 / DAY_MS)
local function stream_of(day) return requests .. ':' .. string.format('%.0f', day) end

local stream = stream_of(today)
for _, entry in ipairs(entries) do
  redis.call('XADD', stream, '*', 'facts', entry[1], 'record', entry[2])
end
redis.call('PEXPIREAT', stream, string.format('%.0f', (today + KEEP_DAYS) * DAY_MS))

local kept = 0
for day = today, today - KEEP_DAYS, -1 do
  local length = redis.call('XLEN', stream_of(day))
  if kept + length > max then redis.call('XTRIM', stream_of(day), 'MAXLEN', max - kept) end
  kept = math.min(max, kept + length)
end
return 1
