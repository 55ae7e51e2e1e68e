-- Counts what calls without a reservation came to in this month, once per batch.
--
-- KEYS usage spent
-- ARGV spent_micros token_ms
-- Reply 1 | 0: whether this call counted it
--
-- `spent_micros` is a JSON object: key id -> micro-USD. `usage` is a key of the batch's own and remembers it for
-- `token_ms`.

local SPENT_TTL_MS = 32 * 86400000

local usage, spent = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- The month in UTC as yyyy-mm: days since a first of March, so that a leap day is the last of its year.
local function month_of(ms)
  local days = math.floor(ms / 86400000) + 719468
  local era, day = math.floor(days / 146097), days % 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  local month = math.floor((5 * (day - 365 * year - math.floor(year / 4) + math.floor(year / 100)) + 2) / 153) + 3
  if month > 12 then year, month = year + 1, month - 12 end
  return string.format('%04d-%02d', era * 400 + year, month)
end

local batch = cjson.decode(ARGV[1])
if not redis.call('SET', usage, '', 'NX', 'PX', ARGV[2]) then return 0 end

local month = month_of(now_ms)
if redis.call('HGET', spent, 'month') ~= month then
  redis.call('DEL', spent)
  redis.call('HSET', spent, 'month', month)
end
for key_id, micros in pairs(batch) do
  local digits = string.format('%.0f', micros)
  redis.call('HINCRBY', spent, 'total', digits)
  redis.call('HINCRBY', spent, 'key:' .. key_id, digits)
end
redis.call('PEXPIRE', spent, SPENT_TTL_MS)
return 1
