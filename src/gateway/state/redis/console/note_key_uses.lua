-- Notes when API keys were used; an older moment changes nothing.
--
-- KEYS uses
-- ARGV moments
-- Reply 1
--
-- `moments` is a JSON object: key id -> epoch milliseconds by the clock of a node. None of them is of the future.

local uses = KEYS[1]

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

for key_id, at_ms in pairs(cjson.decode(ARGV[1])) do
  local used_at_ms = math.min(at_ms, now_ms)
  if used_at_ms > tonumber(redis.call('HGET', uses, key_id) or '-1') then
    redis.call('HSET', uses, key_id, string.format('%.0f', used_at_ms))
  end
end
return 1
